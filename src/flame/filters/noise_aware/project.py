"""The one pass over a tile's cube: logarithm, brightness and all that is linear in the spectrum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64

from flame.filters.noise_aware.background import NoiseAwareBackground
from flame.filters.noise_aware.sample import FLOOR, cube_of, kernels_for, row_ring
from flame.filters.pixels import Block, Pixels, threads
from flame.kernels import Kernels, pack
from flame.kernels.limits import MOST_RESPONSES, packed_rows

__all__ = ["Projection", "SpectralRows", "project", "project_with_numpy"]


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


@dataclass(frozen=True, eq=False)
class SpectralRows:
    """What else is linear in a pixel's log-radiance and comes out of the same pass; only the kernels know it.

    Attributes:
        functions: Functions of wavelength, 0 in dead bands.
        shot, read_out: Variance of each function by noise at brightness r: `shot / r + read_out / r^2`.
        windows: Parts of the filter, at brightness anchors spread evenly over the filter's levels; 0 in dead bands.
        functions_out: Takes the asinh of the functions of log-radiance about the mean, over `sqrt(1 + noise)`.
        windows_out: Takes what each part adds to the estimate, in ppm m; rows and planes as far apart as the other's.
    """

    functions: Float64[np.ndarray, "function band"]
    shot: Float64[np.ndarray, " function"]
    read_out: Float64[np.ndarray, " function"]
    windows: Float64[np.ndarray, "anchor window band"]
    functions_out: Float32[np.ndarray, "function row col"]
    windows_out: Float32[np.ndarray, "window row col"]


def project(
    background: NoiseAwareBackground,
    radiance: Float32[np.ndarray, "band ring col"],
    valid: Bool[np.ndarray, "row col"],
    kernels: Kernels | None = None,
    *,
    first: int = 0,
    workers: int | None = None,
    also: SpectralRows | None = None,
    out: Float32[np.ndarray, "8 row col"] | None = None,
) -> Projection:
    """Runs over the cube once, by the compiled kernels if there are any.

    Args:
        background: What to project on.
        radiance: The cube; a ring of rows if `first` is not 0.
        valid: Which pixels to look at.
        kernels: The kernels to use; those of this processor if None.
        first: Where in `radiance` the first row stands; after the last comes row 0.
        workers: Threads; as many as filters take if None.
        also: What else to find in the same pass; only with kernels.
        out: Where to put the layers; new memory if None.
    """
    kernels = kernels_for(radiance, kernels)
    if kernels is None or not _room(len(background.levels.offset), 1 + len(background.anomaly.mean)):
        return project_with_numpy(background, row_ring(radiance, valid.shape[0], first), valid)
    scale, levels, odd = background.scale, background.levels, background.anomaly
    out = np.empty((8, *valid.shape), dtype=np.float32) if out is None else out
    weight, bias = _packed(background, also)
    fill = np.zeros(-len(levels.offset) % 4)
    tables = np.concatenate([levels.neighbour_gain, fill, levels.sigma_ppm_m, fill]).astype(np.float32)
    ground = np.concatenate([odd.clutter, odd.read_out, odd.shot, odd.methane]).astype(np.float32)
    cube, held = cube_of(radiance, first)
    given = (scale.light, scale.factor, scale.limits, weight, bias, tables, ground, np.ascontiguousarray(valid))
    light, factor, limits, *rows, seen = (array.ctypes.data for array in given)
    extra: tuple[int | None, ...] = (0, 0, 0, None, None, None, 0, 0)
    if also is not None:
        noise = np.concatenate([also.shot, also.read_out]).astype(np.float32)
        plane, stride = (step // 4 for step in also.functions_out.strides[:2])
        places = noise.ctypes.data, also.functions_out.ctypes.data, also.windows_out.ctypes.data
        extra = (len(also.functions), *also.windows.shape[:2], *places, stride, plane)
    kernels.project_spectra(
        *(workers or threads(), *valid.shape, len(held), *cube, None if valid.all() else seen, light, factor, limits),
        *(len(levels.offset), len(odd.mean), *rows[:3], levels.first_log, 1.0 / levels.step_log, rows[3]),
        *(_share(background), out.ctypes.data, *extra),
    )
    return Projection(out)


def _room(*rows: int) -> bool:
    return max(map(packed_rows, rows)) <= MOST_RESPONSES


def _packed(
    background: NoiseAwareBackground, also: SpectralRows | None
) -> tuple[Float32[np.ndarray, " weight"], Float32[np.ndarray, " row"]]:
    """Weights of everything linear in log-radiance as the kernels take them, and what to add."""
    matrix, offset = _linear(background)
    count = len(background.levels.offset)
    parts = list(_fours(matrix[:count], offset[:count]))
    parts.append((matrix[count:], offset[count:]))
    if also is not None:
        parts += [(rows, rows @ background.mean) for rows in (also.functions, *also.windows)]
    filled = [_filled(rows, off) for rows, off in parts if len(rows)]
    return np.concatenate([pack(rows) for rows, _ in filled]), -np.concatenate([off for _, off in filled])


def _fours(
    rows: Float32[np.ndarray, "row band"], offset: Float32[np.ndarray, " row"]
) -> Iterator[tuple[Float32[np.ndarray, "row band"], Float32[np.ndarray, " row"]]]:
    """Levels go four by four, for the kernels skip those far from a pixel's brightness; zeros fill up the last."""
    for low in range(0, len(rows), 4):
        yield rows[low : low + 4], offset[low : low + 4]


def _filled(
    rows: Float[np.ndarray, "row band"], offset: Float[np.ndarray, " row"]
) -> tuple[Float32[np.ndarray, "packed band"], Float32[np.ndarray, " packed"]]:
    """As many rows as the kernels can pack, the last of them zeros."""
    count = packed_rows(len(rows))
    full, shift = np.zeros((count, rows.shape[1]), dtype=np.float32), np.zeros(count, dtype=np.float32)
    full[: len(rows)], shift[: len(rows)] = rows, offset
    return full, shift


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
