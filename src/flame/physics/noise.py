"""Signal-dependent sensor noise: the standard deviation of radiance at a given radiance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from flame.physics.bands import BandSet

__all__ = ["NOISE_MODELS", "NoiseModel", "noise_model"]


@dataclass(frozen=True)
class NoiseModel:
    """`sigma(L) = gain * sqrt(floor + L)`, radiance in µW cm-2 nm-1 sr-1: shot noise above a read-out floor.

    Attributes:
        wavelength_nm: Where the coefficients are known; between them they are interpolated, beyond them held.
        gain: Square root of radiance per detected electron's worth of signal.
        floor: Radiance whose shot noise equals the read-out and thermal noise.
        source: Where the numbers come from.
    """

    wavelength_nm: tuple[float, ...]
    gain: tuple[float, ...]
    floor: tuple[float, ...]
    source: str

    def sigma(self, radiance: Float[np.ndarray, band * pixels], bands: BandSet) -> Float[np.ndarray, band * pixels]:
        """Standard deviation of the noise on each value, in the unit of radiance (µW cm-2 nm-1 sr-1)."""
        shape = (len(bands),) + (1,) * (radiance.ndim - 1)
        gain = np.interp(bands.centres_nm, self.wavelength_nm, self.gain).reshape(shape).astype(radiance.dtype)
        floor = np.interp(bands.centres_nm, self.wavelength_nm, self.floor).reshape(shape).astype(radiance.dtype)
        return np.asarray(gain * np.sqrt(floor + np.maximum(radiance, 0)))


_AVIRIS_NG = NoiseModel(
    (460.0, 550.0, 640.0, 1250.0, 1650.0, 2000.0, 2125.0, 2200.0, 2250.0, 2300.0, 2350.0, 2400.0, 2450.0, 2480.0),
    (0.01216, 0.00980, 0.00999, 0.00528, 0.0034, 0.00295, 0.00287, 0.00289, 0.00281, 0.00279, 0.00280, 0.00281,
     0.00277, 0.00276),
    (1.800, 1.194, 1.238, 0.3465, 0.16, 0.1147, 0.1034, 0.1041, 0.0978, 0.0995, 0.0975, 0.1045, 0.1142, 0.1727),
    "ISOFIT's avirisng_noise.txt (Thompson et al. 2018), coefficients a and b at these wavelengths",
)  # fmt: skip
_EMIT = NoiseModel(
    (462.6, 551.9, 641.3, 1252.97, 1655.2, 2004.4, 2123.0, 2204.5, 2256.3, 2300.7, 2352.5, 2404.3, 2448.6, 2492.9),
    (0.00529, 0.00460, 0.00473, 0.00325, 0.002019, 0.001768, 0.001751, 0.001731, 0.001738, 0.001738, 0.001737,
     0.001752, 0.001789, 0.001901),
    (2.484, 1.881, 1.987, 0.938, 0.362, 0.2778, 0.2723, 0.2661, 0.2682, 0.2683, 0.2679, 0.2726, 0.2842, 0.3211),
    "ISOFIT's emit_noise.txt (EMIT L1B), coefficients a and b at these wavelengths",
)  # fmt: skip


def _from_snr(snr: float, radiance: float, source: str) -> NoiseModel:
    """A model with read-out noise equal to shot noise at a tenth of the reference radiance."""
    floor = 0.1 * radiance
    return NoiseModel((2200.0,), (radiance / snr / np.sqrt(floor + radiance),), (floor,), source)


NOISE_MODELS: dict[str, NoiseModel] = {
    "aviris-ng": _AVIRIS_NG,
    "aviris-3": _AVIRIS_NG,
    "emit": _EMIT,
    "enmap": _from_snr(150.0, 0.5, "EnMAP requirement: SNR 150 at 2200 nm for a 30 % surface"),
    "prisma": _from_snr(100.0, 0.5, "PRISMA requirement: SNR 100 at 2200 nm for a 30 % surface"),
    "tanager-1": _from_snr(300.0, 0.5, "Carbon Mapper: SNR 300 to 600 at 2200 nm for a 25 % surface, lower bound"),
    "generic-10nm": _from_snr(250.0, 0.5, "SBG and CHIME requirement: SNR 250 or more at 2200 nm"),
}


def noise_model(sensor_name: str) -> NoiseModel:
    """The noise model of a sensor in `SENSORS`."""
    return NOISE_MODELS[sensor_name.lower()]
