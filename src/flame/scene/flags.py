"""Why a pixel should not be trusted: one bit a cause, and the rule that says which causes mask it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag

import numpy as np
from jaxtyping import Bool, UInt16

from flame.errors import FlameError

__all__ = ["DEFAULT_MASK", "KEEPABLE", "MaskRule", "SceneFlag", "flag_counts", "flag_names"]


class SceneFlag(IntFlag):
    """Causes, as bits of `Scene.flags`. A pixel may have several."""

    NONE = 0
    FILL = 1
    """No measurement: NaN, the file's fill value, or zero in every band."""
    DETECTOR = 2
    """The product calls the detector element or its calibration faulty in several of the bands that are read."""
    SATURATED = 4
    """A band at the detector's limit."""
    CLOUD = 8
    CIRRUS = 16
    WATER = 32
    """Open water, or ground as dark as water in the short-wave infrared: no light comes back for methane to take."""
    FLARE = 64
    """Fire or gas flare: it shines by itself at 2389 nm."""
    SNOW = 128
    SHADOW = 256
    """Shadow of a cloud."""
    HAZE = 512
    GLINT = 1024
    """Sun glint."""
    INTERPOLATED = 2048
    """One or two of the bands were filled in by the product from their neighbours."""
    EXCLUDED = 4096
    """The file's own validity mask leaves the pixel out without saying why."""


DEFAULT_MASK = (
    SceneFlag.FILL
    | SceneFlag.DETECTOR
    | SceneFlag.SATURATED
    | SceneFlag.CLOUD
    | SceneFlag.CIRRUS
    | SceneFlag.WATER
    | SceneFlag.FLARE
    | SceneFlag.SNOW
    | SceneFlag.EXCLUDED
)
"""Causes that make a pixel invalid unless the caller keeps them; the others are told and change nothing."""

_ALWAYS = SceneFlag.FILL | SceneFlag.EXCLUDED

KEEPABLE = {str(flag.name).lower(): flag for flag in SceneFlag if flag & DEFAULT_MASK & ~_ALWAYS}
"""Masking causes whose pixels may be used all the same, by name: `--keep-NAME` on the command line."""


@dataclass(frozen=True)
class MaskRule:
    """Which causes make a pixel invalid.

    Attributes:
        masked: The causes. What has no measurement (`FILL`) is always among them.
    """

    masked: SceneFlag = DEFAULT_MASK

    @classmethod
    def keeping(cls, names: Iterable[str]) -> MaskRule:
        """The default rule without some causes, named in lower case such as `water`.

        Raises:
            FlameError: If a name is no cause, or one that cannot be kept.
        """
        kept = SceneFlag.NONE
        for name in names:
            if name.lower() not in KEEPABLE:
                raise FlameError(f"'{name}' is not a mask that can be kept; known are {', '.join(KEEPABLE)}")
            kept |= KEEPABLE[name.lower()]
        return cls(DEFAULT_MASK & ~kept)

    def valid(self, flags: UInt16[np.ndarray, "row col"]) -> Bool[np.ndarray, "row col"]:
        """Pixels that no masking cause forbids."""
        return np.asarray((flags & np.uint16(int(self.masked | _ALWAYS))) == 0)


def flag_names(flags: SceneFlag) -> list[str]:
    """The causes in a set of flags, in lower case."""
    return [str(flag.name).lower() for flag in SceneFlag if flag and flag in flags]


def flag_counts(flags: UInt16[np.ndarray, "row col"]) -> dict[str, int]:
    """How many pixels have each cause; causes that no pixel has are left out."""
    counts = {str(flag.name).lower(): int(np.count_nonzero(flags & np.uint16(int(flag)))) for flag in SceneFlag if flag}
    return {name: count for name, count in counts.items() if count}
