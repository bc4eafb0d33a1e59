"""The maps of a scene: their names, units, meanings and colours, told once for every file that shows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Shaped, UInt8, UInt16

from flame.prepare import Quality
from flame.scene import SceneFlag

__all__ = ["FADE", "LAYERS", "QUALITY_CLASSES", "LayerKind", "SceneMaps", "quality_classes", "scale_top"]

_LEAST_TOP_PPM_M = 1500.0
"""Top of the colour scale where nothing is stronger: that of EMIT's plume pictures."""

FADE = 0.3
"""Share of the enhancement's scale that fades into the ground below it: most of it is noise."""


@dataclass(frozen=True)
class LayerKind:
    """One map of a scene.

    Attributes:
        name: Name of its file and variable.
        title: For people.
        unit: As UDUNITS writes it; "1" for a pure number.
        about: What it says, in a sentence.
        colours: Name of its colours in matplotlib; None for classes.
    """

    name: str
    title: str
    unit: str
    about: str
    colours: str | None = None

    @property
    def titled(self) -> str:
        """Title and unit."""
        return f"{self.title} (ppm m)" if self.unit == "1e-6 m" else self.title


LAYERS = {
    kind.name: kind
    for kind in (
        LayerKind(
            "enhancement",
            "methane enhancement",
            "1e-6 m",
            "Methane above its surroundings as the light's path shows it; divide by the light-path factor for a "
            "vertical column.",
            "plasma",
        ),
        LayerKind("sigma", "enhancement sigma", "1e-6 m", "Standard deviation of the enhancement.", "cividis"),
        LayerKind("probability", "plume probability", "1", "How likely a pixel is plume.", "viridis"),
        LayerKind("mask", "plume mask", "1", "1 inside plumes, 0 outside."),
        LayerKind(
            "quality",
            "quality",
            "1",
            "First band: bits of the detection's quality. Second band: why the product itself doubts a pixel.",
        ),
    )
}
"""In the order in which people look at them."""


@dataclass(frozen=True, eq=False)
class SceneMaps:
    """The maps of one scene, in its own pixels.

    Attributes:
        enhancement_ppm_m: Methane enhancement, 0 where unusable.
        probability: Plume probability, 0 where unusable.
        mask: Plume pixels.
        usable: Pixels that were judged; the others are no-data in every map but quality.
        quality: `Quality` bits.
        flags: `SceneFlag` bits, if the scene has them.
        sigma_ppm_m: Standard deviation of the enhancement, NaN where not known; None without any.
    """

    enhancement_ppm_m: Float32[np.ndarray, "row col"]
    probability: Float32[np.ndarray, "row col"]
    mask: Bool[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]
    quality: UInt8[np.ndarray, "row col"]
    flags: UInt16[np.ndarray, "row col"] | None = None
    sigma_ppm_m: Float32[np.ndarray, "row col"] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the maps there are."""
        return tuple(name for name in LAYERS if name != "sigma" or self.sigma_ppm_m is not None)

    def bands(self, name: str) -> Shaped[np.ndarray, "band row col"]:
        """A map as the bands of its file."""
        if name == "quality":
            flags = np.zeros(self.quality.shape, np.uint16) if self.flags is None else self.flags
            return np.stack([self.quality.astype(np.uint16), flags])
        layers = {
            "enhancement": self.enhancement_ppm_m,
            "sigma": self.sigma_ppm_m,
            "probability": self.probability,
            "mask": self.mask,
        }
        return np.asarray(layers[name])[None]

    def shown(self, name: str) -> Bool[np.ndarray, "row col"]:
        """Pixels of a map that mean something."""
        if name == "quality":
            return np.ones(self.usable.shape, np.bool_)
        if name == "sigma" and self.sigma_ppm_m is not None:
            return np.asarray(self.usable & np.isfinite(self.sigma_ppm_m))
        return self.usable


QUALITY_CLASSES = (
    ("usable", "#f2f2ee", Quality.GOOD, SceneFlag.NONE),
    ("dark ground", "#b9b4a8", Quality.DARK, SceneFlag.SHADOW),
    ("doubtful", "#d9c27a", Quality.GOOD, SceneFlag.HAZE | SceneFlag.GLINT | SceneFlag.INTERPOLATED),
    ("water", "#5b8fc7", Quality.GOOD, SceneFlag.WATER),
    ("cloud or snow", "#8fd0d8", Quality.GOOD, SceneFlag.CLOUD | SceneFlag.CIRRUS | SceneFlag.SNOW),
    ("saturated or flare", "#e2725b", Quality.SATURATED, SceneFlag.SATURATED | SceneFlag.FLARE),
    (
        "no data",
        "#3b3f46",
        Quality.NOT_FINITE | Quality.NO_SIGNAL,
        SceneFlag.FILL | SceneFlag.DETECTOR | SceneFlag.EXCLUDED,
    ),
    ("not judged", "#7d5a80", Quality.TOO_FEW | Quality.FAILED, SceneFlag.NONE),
)
"""Name, colour and the bits that put a pixel there; a later class covers an earlier one."""


def quality_classes(
    quality: UInt16[np.ndarray, "row col"], flags: UInt16[np.ndarray, "row col"]
) -> UInt8[np.ndarray, "row col"]:
    """The class of each pixel, as a place in `QUALITY_CLASSES`.

    A pixel that the detection calls invalid without any cause known of the scene is no data.
    """
    found = np.zeros(quality.shape, np.uint8)
    unexplained = ((quality & int(Quality.INVALID)) != 0) & (flags == 0)
    for place, (name, _, bits, causes) in enumerate(QUALITY_CLASSES):
        here = ((quality & int(bits)) != 0) | ((flags & int(causes)) != 0)
        found[here | unexplained if name == "no data" else here] = place
    return found


def scale_top(maps: SceneMaps) -> float:
    """Top of the enhancement's colour scale in ppm m: a round number near the strongest plume pixels."""
    inside = maps.enhancement_ppm_m[maps.mask & maps.usable]
    high = float(np.percentile(inside, 99)) if inside.size else 0.0
    if not high > _LEAST_TOP_PPM_M:
        return _LEAST_TOP_PPM_M
    step = 10.0 ** np.floor(np.log10(high)) / 2
    return float(np.ceil(high / step) * step)
