"""The sensor: band shifts, point spread, calibration errors, stripes, noise, dead columns, saturation, line edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32
from scipy import ndimage

from flame.physics import BandSet, noise_model, transmittance
from flame.simulate.settings import InstrumentSettings, Range

__all__ = [
    "InstrumentState",
    "band_transmittance",
    "draw_band_gain",
    "draw_instrument",
    "noise_sigma",
    "point_spread",
    "respond",
    "saturate",
]

_SHIFT_GRID_NM = 0.25
_SMOOTHED_STD = 0.1878
"""Standard deviation of white noise after a Gaussian filter of sigma 8, `1 / sqrt(2 sqrt(pi) 8)`."""


@dataclass(frozen=True, eq=False)
class InstrumentState:
    """The sensor as it was during one tile.

    Attributes:
        shift_nm: Shift of all band centres.
        fwhm_factor: Band width against nominal.
        smile_nm: Further shift of the centres at each pixel, by its place across the swath.
        psf_sigma_px: Point spread, in pixels.
        noise_factor: Factor on the sensor's noise, each band.
        band_gain: Calibration factor, each band.
        band_offset: Additive error, each band, relative to the band's mean radiance.
        stripe: Gain of each detector, band by column of the detector.
        column: Detector column that saw each pixel.
        seen: False beyond the flight line and under dead columns.
        saturates: Quantile of radiance above which the detector saturates; 1 for never.
    """

    shift_nm: float
    fwhm_factor: float
    smile_nm: Float32[np.ndarray, "row col"]
    psf_sigma_px: float
    noise_factor: Float32[np.ndarray, " band"]
    band_gain: Float32[np.ndarray, " band"]
    band_offset: Float32[np.ndarray, " band"]
    stripe: Float32[np.ndarray, "band column"]
    column: np.ndarray
    seen: Bool[np.ndarray, "row col"]
    saturates: float


def draw_instrument(
    rng: np.random.Generator, shape: tuple[int, int], bands: BandSet, settings: InstrumentSettings
) -> InstrumentState:
    """One state of the sensor."""
    count = len(bands)
    angle = np.deg2rad(settings.rotation_deg.draw(rng))
    row, col = np.mgrid[: shape[0], : shape[1]]
    across = (col - shape[1] / 2) * np.cos(angle) + (row - shape[0] / 2) * np.sin(angle)
    reach = float(np.ceil(np.hypot(*shape) / 2)) + 1
    place = across / reach
    smile = settings.smile_nm.draw(rng) * (rng.uniform(-1, 1) * place + rng.uniform(-1, 1) * (place**2 - 0.3))
    column = np.floor(across + reach).astype(np.intp)
    columns = int(2 * reach) + 1
    common = settings.column_gain.draw(rng) * rng.standard_normal((1, columns))
    stripe = 1.0 + common + settings.stripe.draw(rng) * rng.standard_normal((count, columns))
    seen = np.ones(shape, np.bool_)
    if rng.uniform() < settings.edge_chance:
        edge = np.quantile(across, rng.uniform(0.05, 0.5))
        wobble = 1.5 * np.sin((row * np.cos(angle) - col * np.sin(angle)) / rng.uniform(8.0, 40.0))
        seen &= across > edge + wobble
    if rng.uniform() < settings.dead_column_chance:
        seen &= ~np.isin(column, rng.integers(0, columns, int(rng.integers(1, 4))))
    return InstrumentState(
        shift_nm=settings.shift_nm.draw(rng),
        fwhm_factor=settings.fwhm_factor.draw(rng),
        smile_nm=smile.astype(np.float32),
        psf_sigma_px=settings.psf_sigma_px.draw(rng),
        noise_factor=_f32(
            settings.noise_scale.draw(rng) * np.exp(settings.band_noise_spread.draw(rng) * rng.standard_normal(count))
        ),
        band_gain=_f32(np.exp(draw_band_gain(rng, count, settings.band_gain, settings.band_mismatch))),
        band_offset=_f32(settings.band_offset.draw(rng) * rng.standard_normal(count)),
        stripe=_f32(stripe),
        column=column,
        seen=seen,
        saturates=1.0 - 10 ** rng.uniform(-3.5, -2.0) if rng.uniform() < settings.saturation_chance else 1.0,
    )


def draw_band_gain(rng: np.random.Generator, count: int, shared: Range, mismatch: Range) -> Float[np.ndarray, " band"]:
    """Log gain error of each band: a part that neighbours share and a part of its own."""
    smooth = ndimage.gaussian_filter1d(rng.standard_normal(count + 40), 8.0)[20 : count + 20]
    own = mismatch.draw(rng) * rng.standard_normal(count)
    return np.asarray(shared.draw(rng) * smooth / _SMOOTHED_STD + own)


def _f32(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def band_transmittance(
    slant_ppm_m: Float[np.ndarray, " pixel"],
    bands: BandSet,
    shift_nm: Float[np.ndarray, " pixel"],
) -> Float32[np.ndarray, "band pixel"]:
    """Transmittance of an enhancement for pixels whose band centres are shifted by up to a nanometre.

    It is taken from two of a few fixed shifts and interpolated between them in the logarithm.
    """
    step = np.clip(shift_nm, -1.0, 1.0) / _SHIFT_GRID_NM
    below = np.floor(step).astype(int)
    result = np.empty((len(bands), slant_ppm_m.size), np.float32)
    for index in np.unique(below):
        here = below == index
        low, high = (
            np.log(transmittance(slant_ppm_m[here], BandSet(bands.centres_nm + k * _SHIFT_GRID_NM, bands.fwhm_nm)))
            for k in (int(index), int(index) + 1)
        )
        share = step[here] - index
        result[:, here] = np.exp(low * (1.0 - share) + high * share)
    return result


def point_spread(radiance: Float32[np.ndarray, "band row col"], sigma_px: float) -> Float32[np.ndarray, "band row col"]:
    """Radiance blurred by a Gaussian point spread."""
    blurred = ndimage.gaussian_filter1d(radiance, sigma_px, axis=1, mode="nearest", truncate=3.0)
    return np.asarray(ndimage.gaussian_filter1d(blurred, sigma_px, axis=2, mode="nearest", truncate=3.0))


def respond(
    radiance: Float32[np.ndarray, "band row col"],
    mean_radiance: Float32[np.ndarray, " band"],
    state: InstrumentState,
) -> Float32[np.ndarray, "band row col"]:
    """What the sensor would report without noise: gain, offset and stripes applied to blurred radiance."""
    gain = state.band_gain[:, None] * state.stripe
    signal = radiance * gain[:, state.column]
    return np.asarray(signal + (state.band_offset * mean_radiance)[:, None, None])


def noise_sigma(
    signal: Float32[np.ndarray, "band row col"], bands: BandSet, state: InstrumentState, sensor_name: str
) -> Float32[np.ndarray, "band row col"]:
    """Standard deviation of the noise on each value, in the unit of radiance."""
    return _f32(noise_model(sensor_name).sigma(signal, bands) * state.noise_factor[:, None, None])


def saturate(
    radiance: Float32[np.ndarray, "band row col"], state: InstrumentState
) -> Float32[np.ndarray, "band row col"]:
    """Values above the detector's full well stay at it."""
    if state.saturates >= 1.0:
        return radiance
    full = np.quantile(radiance[0], state.saturates)
    return np.asarray(np.minimum(radiance, np.float32(full)))
