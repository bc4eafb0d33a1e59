"""Plumes without a model: the noise-aware matched filter as a detector, for the bands of any spectrometer."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float32

from flame.detection import DecisionRule, find_plumes, plume_mask
from flame.onboard.asked import Asked
from flame.onboard.detector import Detection, DetectorIdentity
from flame.onboard.manifest import ModelError
from flame.onboard.strip import TileReport, Timings
from flame.physics import BandSet
from flame.prepare import Quality
from flame.scene import AnyScene

__all__ = ["FILTER_MODEL", "FilterDetector"]

FILTER_MODEL = "noise-aware-mf"
"""The name by which it is asked for where a model is asked for."""

_VERSION = 1
_WIDTH_PX = 1.5
_RULE = DecisionRule(threshold=0.5, opening=True)


class FilterDetector:
    """Finds plumes by the probability that the smoothed estimate of the noise-aware filter is methane at all.

    It needs no training and takes any bands, with smile or without. A learned model finds fainter plumes and takes
    fewer other things for methane: this is for spectrometers that have none.

    Args:
        asked: A threshold; 0.5 unless given.

    Raises:
        ModelError: If a sensitivity, a level or a core is asked for, which only models have.
    """

    runtime = "filter (NumPy and compiled kernels)"

    def __init__(self, asked: Asked | None = None) -> None:
        asked = asked or Asked()
        if not self.can(asked):
            raise ModelError(
                "the noise-aware matched filter, which runs where no model fits or is asked for, has no sensitivities "
                "and no levels or cores; give a threshold instead, or a model that has them"
            )
        self.rule = _RULE if asked.threshold is None else replace(_RULE, threshold=asked.threshold)
        self.identity = DetectorIdentity(
            model="noise-aware matched filter (no model)",
            sha256=None,
            rule=self.rule,
            key=asked.key(f"{FILTER_MODEL} {_VERSION}"),
        )

    @staticmethod
    def can(asked: Asked) -> bool:
        """Whether the filter can do what is asked."""
        return asked.sensitivity is None and asked.level in (None, "visible") and asked.core_sigmas is None

    def run(self, scene: AnyScene) -> Detection:
        """Finds plumes in a scene of any size and any bands in the methane window.

        Raises:
            flame.errors.FlameError: If the scene has too few bands or pixels to learn its background from.
        """
        from flame.filters import FILTERS, filter_layers  # 28 MB that a runtime with a model never needs

        began = time.perf_counter()
        layers = filter_layers(replace(FILTERS[FILTER_MODEL], layers=_layers), scene)
        found_s = time.perf_counter() - began
        usable = scene.valid & (layers["usable"] > 0)
        probability = np.where(usable, layers["probability"], np.float32(0))
        enhancement_ppm_m = np.where(usable, layers["enhancement"], np.float32(0))
        sigma_ppm_m = np.where(usable, layers["sigma"], np.float32(np.inf))
        mask = plume_mask(probability, usable, self.rule)
        plumes = find_plumes(mask, probability, enhancement_ppm_m)
        quality = np.where(scene.valid, np.where(usable, Quality.GOOD, Quality.NO_SIGNAL), Quality.INVALID)
        total_s = time.perf_counter() - began
        flags = Quality(int(np.bitwise_or.reduce(quality, axis=None)))
        return Detection(
            probability=probability,
            score_ppm_m=enhancement_ppm_m,
            mask=mask,
            usable=usable,
            quality=quality.astype(np.uint8),
            plumes=plumes,
            tiles=(TileReport(0, 0, flags, found_s),),
            timings=Timings(prepare_s=found_s, decide_s=total_s - found_s, total_s=total_s),
            runtime=self.runtime,
            sigma_ppm_m=sigma_ppm_m,
            estimate_ppm_m=enhancement_ppm_m,
            estimate_sigma_ppm_m=sigma_ppm_m,
            unasked=False,
        )


def _layers(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    _settings: None = None,
) -> dict[str, Float32[np.ndarray, "row col"]]:
    from flame.filters import noise_aware_fields

    found = noise_aware_fields(radiance, bands, valid)
    # Where one block of lines fades into the next, NaN lets the other speak alone; 0 would be mixed into what it says.
    unknown = np.float32(np.nan)
    return {
        "enhancement": np.where(found.usable, found.enhancement_ppm_m, unknown),
        "sigma": found.sigma_ppm_m,
        "probability": np.where(found.usable, found.posterior(_WIDTH_PX).probability, unknown),
        "usable": found.usable.astype(np.float32),
    }
