"""The one pass over a tile's cube: logarithm, brightness and all that is linear in the spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from flame.filters.noise_aware.background import NoiseAwareBackground
from flame.filters.noise_aware.sample import FLOOR
from flame.filters.pixels import Block, Pixels

__all__ = ["Projection", "project"]


@dataclass(frozen=True, eq=False)
class Projection:
    """What a pixel's own spectrum says.

    Attributes:
        brightness: Brightness; 0 where the pixel is not valid.
        estimate: Linear estimate without the neighbours, in ppm m.
        neighbour: What the pixel will tell its neighbours.
        gain: Factor on what its neighbours tell it.
        sigma: Standard deviation of the estimate, in ppm m.
        anomaly: Coefficients (c0, c1, c2) of the mean square distance from the tile's ground, `c0 + c1 e + c2 e^2` for
            an enhancement e.
    """

    brightness: Float32[np.ndarray, "row col"]
    estimate: Float32[np.ndarray, "row col"]
    neighbour: Float32[np.ndarray, "row col"]
    gain: Float32[np.ndarray, "row col"]
    sigma: Float32[np.ndarray, "row col"]
    anomaly: Float32[np.ndarray, "3 row col"]


def project(
    background: NoiseAwareBackground,
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
) -> Projection:
    """Runs over the cube once, in NumPy."""
    scale, levels, odd = background.scale, background.levels, background.anomaly
    pixels = Pixels(radiance.reshape(len(radiance), -1), valid.reshape(-1), valid.shape)
    count = len(levels.offset)
    matrix = np.concatenate([levels.weight, background.neighbour[None], odd.direction]).astype(np.float32)
    offset = np.concatenate([levels.offset, [background.neighbour_mean], odd.mean]).astype(np.float32)
    gain, sigma = levels.neighbour_gain.astype(np.float32), levels.sigma_ppm_m.astype(np.float32)
    at = np.arange(count)
    share = np.float32(1.0 / (len(odd.mean) * odd.typical))
    light, factor = scale.light, scale.factor
    out = np.zeros((8, pixels.usable.size), dtype=np.float32)

    def fill(block: Block) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            brightness = light @ block.spectra
        usable = scale.usable(brightness)
        safe = np.where(usable, brightness, np.float32(1))
        with np.errstate(invalid="ignore", over="ignore"):
            logs = np.maximum(block.spectra * factor[:, None], np.float32(FLOOR) * safe)
        np.log(logs, out=logs)
        linear = matrix @ logs - offset[:, None]
        place = levels.place(safe)
        hat = np.maximum(0, 1 - np.abs(place - at[:, None].astype(np.float32)))
        along = linear[count + 1 :]
        inverse = 1 / safe
        expected = odd.clutter.astype(np.float32)[:, None] + inverse * (
            odd.shot.astype(np.float32)[:, None] + inverse * odd.read_out.astype(np.float32)[:, None]
        )
        methane = odd.methane.astype(np.float32)[:, None]
        scaled = along / expected
        rows = [
            (hat * linear[:count]).sum(axis=0),
            linear[count],
            gain @ hat,
            sigma @ hat,
            share * (along * scaled).sum(axis=0),
            -2 * share * (scaled * methane).sum(axis=0),
            share * (methane * methane / expected).sum(axis=0),
        ]
        out[0, block.where] = brightness
        for layer, values in zip(out[1:], rows, strict=True):
            layer[block.where] = np.where(usable, values, np.float32(0))

    pixels.map(fill)
    image = out.reshape(8, *valid.shape)
    return Projection(image[0], image[1], image[2], image[3], image[4], image[5:])
