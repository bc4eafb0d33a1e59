"""MAG1C-SAS: MAG1C fitted to a sample of the pixels and applied to all."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Int

from flame.filters.background import PIXELS_PER_BAND, usable_background
from flame.filters.errors import FilterError
from flame.filters.mag1c import Mag1cSettings
from flame.filters.mag1c_fit import fit, reweight
from flame.filters.pixels import Block, Pixels, pixels_of
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption

__all__ = ["Mag1cSasSettings", "sample_of", "score"]


@dataclass(frozen=True)
class Mag1cSasSettings:
    """Settings of MAG1C-SAS; the defaults are the published ones.

    Attributes:
        sample_share: Share of the valid pixels the background is fitted to.
        apply_iterations: Reweighting steps on all pixels, background held.
        mag1c: Settings of the fit; its column groups are not used.
    """

    sample_share: float = 0.01
    apply_iterations: int = 3
    mag1c: Mag1cSettings = field(default_factory=Mag1cSettings)

    def __post_init__(self) -> None:
        if not 0 < self.sample_share <= 1 or self.apply_iterations < 0:
            raise FilterError(f"sample_share must lie in 0 to 1 and apply_iterations must not be negative, got {self}")
        if self.mag1c.column_group is not None:
            raise FilterError("MAG1C-SAS samples the whole image; leave column_group unset")


def sample_of(pixels: Pixels, share: float) -> Pixels:
    """Every k-th usable pixel as an image of one row: the stride rule of Herec et al., but never too few to invert."""
    return pixels.sample(max(int(share * pixels.count), PIXELS_PER_BAND * pixels.spectra.shape[0]))


def score(
    radiance: Float32[np.ndarray, "band row col"],
    bands: BandSet,
    valid: Bool[np.ndarray, "row col"],
    settings: Mag1cSasSettings | None = None,
) -> Float32[np.ndarray, "row col"]:
    """Methane enhancement by MAG1C-SAS.

    Herec, Růžička and Pitoňák, "Optimizing methane detection on board satellites: speed, accuracy, and low-power
    solutions for resource-constrained hardware", arXiv:2507.01472 (2025).

    Args:
        radiance: Image, in any unit of radiance.
        bands: Its bands.
        valid: Which pixels to use.
        settings: Sample, iterations and background; defaults if None.

    Returns:
        Enhancement in ppm m, not negative; 0 where invalid, saturated, or too dark to tell.
    """
    settings = settings or Mag1cSasSettings()
    limits = settings.mag1c.background
    pixels = pixels_of(radiance, bands, valid)
    sample, background = usable_background(sample_of(pixels, settings.sample_share), limits)
    fitted = fit(sample.pixels, background, unit_absorption(bands), settings.mag1c.iterations)
    weights = np.stack([fitted.weight, fitted.mean / (fitted.mean @ fitted.mean)]).astype(np.float32)
    offset = np.float32(fitted.mean @ fitted.weight)
    # With u = response / sqrt(normaliser), k steps of u - 1 / u from u itself stay above 0 if u > 2 cos(pi / (k + 2)).
    least = 0.999 * 2.0 * np.cos(np.pi / (settings.apply_iterations + 2)) * np.sqrt(fitted.normaliser) + offset

    def candidates(block: Block) -> tuple[Int[np.ndarray, " pixel"], Float32[np.ndarray, "2 pixel"]]:
        """Where methane may be, with response and albedo; picked out while the block is in cache."""
        with np.errstate(over="ignore", invalid="ignore"):
            both = weights @ block.spectra
        if np.isnan(both[0]).any():
            raise FilterError("valid pixels hold NaN, infinite or absurdly large radiance; mark them invalid")
        chosen = np.flatnonzero(both[0] > least)
        return block.places(chosen), both[:, chosen]

    places, values = zip(*pixels.map(candidates), strict=True)
    found, (response, albedo) = np.concatenate(places), np.concatenate(values, axis=1)
    lit = (albedo >= limits.min_albedo) & (albedo <= limits.max_albedo)
    found, response, albedo = found[lit], response[lit] - offset, albedo[lit]
    signal = response / np.float32(fitted.normaliser)
    for _ in range(settings.apply_iterations):
        signal = reweight(response, signal, fitted.normaliser)
    out = np.zeros(pixels.usable.size, dtype=np.float32)
    out[found] = signal * np.float32(ABSORPTION_UNIT_PPM_M) / albedo
    return pixels.as_image(out)
