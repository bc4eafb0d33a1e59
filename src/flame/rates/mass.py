"""Excess methane of a plume in kg, with its standard deviation (the integrated mass enhancement, IME)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy import ndimage

from flame.errors import FlameError
from flame.physics import kg_per_m2_from_ppm_m

__all__ = ["Air", "MassSettings", "PlumeMass", "RateError", "local_background", "plume_mass"]

_EIGHT_NEIGHBOURS = np.ones((3, 3), np.bool_)
_NORMAL_MAD = 1.4826


class RateError(FlameError):
    """A plume whose mass or rate cannot be found as asked."""


@dataclass(frozen=True)
class Air:
    """The air in which a column's ppm are counted, and the light's way through the plume.

    Attributes:
        temperature_k: Its temperature; 0 °C as in MAG1C's table unless known better.
        pressure_pa: Its pressure.
        path_factor: Retrieved ppm m for each ppm m of vertical column: `flame.physics.path_factor` of the air mass.
    """

    temperature_k: float = 273.15
    pressure_pa: float = 101_325.0
    path_factor: float = 1.0

    @property
    def kg_per_m2(self) -> float:
        """Mass above a square metre for one retrieved ppm m: the k of the emission formulas, light path included."""
        return kg_per_m2_from_ppm_m(1.0, self.temperature_k, self.pressure_pa) / self.path_factor


@dataclass(frozen=True)
class MassSettings:
    """How a plume's own excess is told from its surroundings.

    Attributes:
        gap_px: Pixels next to the plume that count neither as plume nor as surroundings.
        ring_px: Width of the ring of surroundings.
        least_ring_pixels: With fewer, no background is taken off.
        shifts: Places over plume-free ground to which the mask is moved to see what it finds there.
    """

    gap_px: int = 3
    ring_px: int = 12
    least_ring_pixels: int = 30
    shifts: int = 200


@dataclass(frozen=True)
class PlumeMass:
    """The excess methane of a plume.

    Attributes:
        ime_kg: Mass above background.
        sigma_kg: Its standard deviation.
        noise_sigma_kg: The part of it that comes from the pixels' own errors.
        background_ppm_m: Enhancement of the surroundings that was taken off.
        area_m2: Ground area of the mask.
        kg_per_m2: The factor k that was used, in kg m-2 per ppm m.
    """

    ime_kg: float
    sigma_kg: float
    noise_sigma_kg: float
    background_ppm_m: float
    area_m2: float
    kg_per_m2: float


def local_background(
    enhancement_ppm_m: Float[np.ndarray, "row col"],
    sigma_ppm_m: Float[np.ndarray, "row col"],
    mask: Bool[np.ndarray, "row col"],
    free: Bool[np.ndarray, "row col"],
    settings: MassSettings | None = None,
) -> tuple[float, float]:
    """Median enhancement of the ground around a plume and its standard error, in ppm m.

    Args:
        enhancement_ppm_m: Retrieved enhancement.
        sigma_ppm_m: Its standard deviation.
        mask: The plume.
        free: Usable pixels that belong to no plume.
        settings: Width of the ring.

    Returns:
        Zeros if too few pixels are free around the plume.
    """
    settings = settings or MassSettings()
    near = ndimage.binary_dilation(mask, _EIGHT_NEIGHBOURS, iterations=settings.gap_px)
    far = ndimage.binary_dilation(near, _EIGHT_NEIGHBOURS, iterations=settings.ring_px)
    ring = far & ~near & free & np.isfinite(sigma_ppm_m)
    values = enhancement_ppm_m[ring].astype(np.float64)
    if values.size < settings.least_ring_pixels:
        return 0.0, 0.0
    level = float(np.median(values))
    spread = _NORMAL_MAD * float(np.median(np.abs(values - level)))
    return level, 1.2533 * spread / float(np.sqrt(values.size))  # a median's error is that much above a mean's


def plume_mass(
    enhancement_ppm_m: Float[np.ndarray, "row col"],
    sigma_ppm_m: Float[np.ndarray, "row col"],
    mask: Bool[np.ndarray, "row col"],
    free: Bool[np.ndarray, "row col"],
    pixel_area_m2: float,
    air: Air | None = None,
    settings: MassSettings | None = None,
    rng: np.random.Generator | None = None,
) -> PlumeMass:
    """Mass of a plume above its surroundings.

    Its error has two parts, added in squares: the error of the local background under the whole mask, and the larger of
    the pixels' own errors and what the mask finds where there is no plume, which holds them too, and the clutter that
    neighbouring pixels share.

    Args:
        enhancement_ppm_m: Retrieved enhancement.
        sigma_ppm_m: Its standard deviation.
        mask: The plume.
        free: Usable pixels that belong to no plume.
        pixel_area_m2: Ground area of a pixel.
        air: Air and light path.
        settings: Ring and shifts.
        rng: Where the mask is moved to; without one it is not moved.

    Raises:
        RateError: If the mask is empty or the pixel has no area.
    """
    air, settings = air or Air(), settings or MassSettings()
    if not mask.any():
        raise RateError("a plume without pixels has no mass")
    if not (np.isfinite(pixel_area_m2) and pixel_area_m2 > 0):
        raise RateError(f"a pixel of {pixel_area_m2} m²; the scene's geometry is needed for a mass")
    level, level_error = local_background(enhancement_ppm_m, sigma_ppm_m, mask, free, settings)
    pixels = int(mask.sum())
    per_ppm_m = air.kg_per_m2 * pixel_area_m2
    total = float(enhancement_ppm_m[mask].astype(np.float64).sum()) - pixels * level
    own = float(np.sqrt(np.square(sigma_ppm_m[mask & np.isfinite(sigma_ppm_m)].astype(np.float64)).sum()))
    shared = pixels * level_error
    moved = _moved_sums(enhancement_ppm_m, mask, free, settings, rng)
    clutter = float(np.std(moved)) if moved.size >= 8 else 0.0
    random = max(own, clutter)  # the moved mask sees the pixels' own errors too
    return PlumeMass(
        ime_kg=total * per_ppm_m,
        sigma_kg=float(np.hypot(random, shared)) * per_ppm_m,
        noise_sigma_kg=own * per_ppm_m,
        background_ppm_m=level,
        area_m2=pixels * pixel_area_m2,
        kg_per_m2=air.kg_per_m2,
    )


def _moved_sums(
    enhancement_ppm_m: Float[np.ndarray, "row col"],
    mask: Bool[np.ndarray, "row col"],
    free: Bool[np.ndarray, "row col"],
    settings: MassSettings,
    rng: np.random.Generator | None,
) -> Float[np.ndarray, " shift"]:
    """Sums of the enhancement under the mask moved over free ground, each about the median of all that ground."""
    rows, cols = np.nonzero(mask)
    height, width = mask.shape
    down = np.array([-rows.min(), height - 1 - rows.max()])
    across = np.array([-cols.min(), width - 1 - cols.max()])
    if rng is None or settings.shifts == 0 or (down[0] == down[1] and across[0] == across[1]):
        return np.empty(0)
    typical = float(np.median(enhancement_ppm_m[free])) if free.any() else 0.0
    sums = []
    for _ in range(settings.shifts):
        moved = rows + rng.integers(down[0], down[1] + 1), cols + rng.integers(across[0], across[1] + 1)
        clear = free[moved]
        if clear.mean() > 0.9:
            values = enhancement_ppm_m[moved][clear].astype(np.float64) - typical
            sums.append(values.sum() * rows.size / clear.sum())
    return np.array(sums)
