"""The one pass over a tile's cube: logarithm, brightness and all that is linear in the spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from flame.filters.noise_aware.background import NoiseAwareBackground
from flame.filters.noise_aware.sample import FLOOR, kernels_for
from flame.filters.pixels import Block, Pixels, threads
from flame.kernels import Kernels, pack
from flame.kernels.limits import MOST_RESPONSES

__all__ = ["Projection", "project", "project_with_numpy"]


@dataclass(frozen=True, eq=False)
class Projection:
    """What a pixel's own spectrum says.

    Attributes:
        layers: Brightness, 0 where the pixel is not valid; linear estimate without the neighbours, in ppm m; what the
            pixel will tell its neighbours; factor on what its neighbours tell it; standard deviation of the estimate,
            in ppm m; coefficients (c0, c1, c2) of the mean square distance from the tile's ground, `c0 + c1 e + c2 e^2`
            for an enhancement e. All but the brightness are 0 where the pixel is not usable.
    """

    layers: Float32[np.ndarray, "8 row col"]


def project(
    background: NoiseAwareBackground,
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
    kernels: Kernels | None = None,
) -> Projection:
    """Runs over the cube once, by the compiled kernels if there are any.

    Args:
        background: What to project on.
        radiance: The cube.
        valid: Which pixels to look at.
        kernels: The kernels to use; those of this processor if None.
    """
    kernels = kernels_for(radiance, kernels)
    rows = len(background.levels.offset) + 1 + len(background.anomaly.mean)
    if kernels is None or rows > MOST_RESPONSES or 4 * (-rows % 5) > rows:
        return project_with_numpy(background, radiance, valid)
    scale, levels, odd = background.scale, background.levels, background.anomaly
    if radiance.dtype != np.float32 or radiance.strides[2] != 4:
        radiance = np.ascontiguousarray(radiance, dtype=np.float32)
    matrix, offset = _linear(background)
    weight, bias = pack(matrix), -offset
    tables = np.concatenate([levels.neighbour_gain, levels.sigma_ppm_m]).astype(np.float32)
    ground = np.concatenate([odd.clutter, odd.read_out, odd.shot, odd.methane]).astype(np.float32)
    light, factor, limits = scale.light, scale.factor, scale.limits
    out = np.empty((8, *valid.shape), dtype=np.float32)
    band_stride, row_stride = (step // 4 for step in radiance.strides[:2])
    address = [array.ctypes.data for array in (light, factor, limits, weight, bias, tables, ground, out)]
    kernels.project_spectra(
        *(threads(), *valid.shape, len(radiance), radiance.ctypes.data, band_stride, row_stride),
        *(*address[:3], len(levels.offset), len(odd.mean), *address[3:6], levels.first_log, 1.0 / levels.step_log),
        *(address[6], _share(background), address[7]),
    )
    if not valid.all():
        out[:, ~valid] = 0.0
    return Projection(out)


def _linear(
    background: NoiseAwareBackground,
) -> tuple[Float32[np.ndarray, "row band"], Float32[np.ndarray, " row"]]:
    """Weights of everything linear in log-radiance, and what to subtract: levels, neighbours, directions."""
    levels, odd = background.levels, background.anomaly
    matrix = np.concatenate([levels.weight, background.neighbour[None], odd.direction])
    offset = np.concatenate([levels.offset, [background.neighbour_mean], odd.mean])
    return matrix.astype(np.float32), offset.astype(np.float32)


def _share(background: NoiseAwareBackground) -> float:
    return 1.0 / (len(background.anomaly.mean) * background.anomaly.typical)


def project_with_numpy(
    background: NoiseAwareBackground,
    radiance: Float32[np.ndarray, "band row col"],
    valid: Bool[np.ndarray, "row col"],
) -> Projection:
    """The same in NumPy."""
    scale, levels, odd = background.scale, background.levels, background.anomaly
    pixels = Pixels(radiance.reshape(len(radiance), -1), valid.reshape(-1), valid.shape)
    count = len(levels.offset)
    matrix, offset = _linear(background)
    gain, sigma = levels.neighbour_gain.astype(np.float32), levels.sigma_ppm_m.astype(np.float32)
    at = np.arange(count)
    share = np.float32(_share(background))
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
    return Projection(out.reshape(8, *valid.shape))
