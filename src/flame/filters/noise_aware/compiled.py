"""All passes over a sample on the compiled kernels; `fit_filter` and `find_anomalies` say what they are."""

from __future__ import annotations

import ctypes

import numpy as np
from jaxtyping import Float64

from flame.filters.noise_aware.anomaly import DIRECTIONS, Anomaly
from flame.filters.noise_aware.fit import LEAST_BINS, Ground, level_logs
from flame.filters.noise_aware.levels import Levels, places
from flame.filters.noise_aware.moments import BinnedSample
from flame.filters.noise_aware.noise_law import NoiseLaw
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.noise_aware.smoothing import gaussian_taps
from flame.kernels import Kernels
from flame.kernels.limits import MOST_BANDS

__all__ = ["learn_with_kernels"]

_MOST = 64
"""Bins and levels that the kernels have room for, `MOST_BINS` and `MOST_LEVELS` of learning.h."""

_SIZES = ("threads", "bands", "parts", "bins", "levels", "passes", "rows", "cols", "reach_down", "reach_across")
_GIVEN = (
    *("chunks", "brightness", "place", "order", "edges", "number", "inverse", "inverse_square", "first", "second"),
    *("spectrum", "level_brightness", "lent", "down", "across"),
)
_FOUND = (
    *("law", "mean", "covariance", "mean_noise", "weight", "level", "neighbour", "direction", "clutter", "told"),
    "doubtful",
)


class _Learning(ctypes.Structure):
    """`learning` of learning.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in _SIZES),
        *((name, ctypes.c_int64) for name in ("count", "side")),
        *((name, ctypes.c_double) for name in ("ring_noise", "plume_significance", "shrinkage")),
        *((name, ctypes.c_void_p) for name in (*_GIVEN, *_FOUND, "room", "pixels", "places")),
    )


def learn_with_kernels(
    kernels: Kernels,
    binned: BinnedSample,
    shape: tuple[int, int],
    step: int,
    spectrum: Float64[np.ndarray, " band"],
    settings: NoiseAwareSettings,
    *,
    ring_noise: float,
    workers: int,
) -> tuple[Ground, Anomaly] | None:
    """The filter and what is unusual, after all passes; None if that takes a way that only NumPy knows.

    Args:
        kernels: The compiled kernels.
        binned: The sample.
        shape: Its rows and columns.
        step: Rows of the tile from one of its rows to the next.
        spectrum: Change of log-radiance by 1 ppm m, in the sample's bands.
        settings: Settings of the filter.
        ring_noise: Variance of noise in the neighbours' mean, in units of a pixel's own.
        workers: Threads.
    """
    moments, bands, levels = binned.moments, len(spectrum), settings.levels
    bins = len(moments.count)
    if not LEAST_BINS <= bins <= _MOST or levels > _MOST or bands > MOST_BANDS:
        return None
    low, logs = level_logs(binned.brightness, levels)
    step_log = float(logs[1] - logs[0])
    brightness = np.exp(logs)
    given = {
        "chunks": binned.chunks,
        "brightness": binned.brightness,
        "place": places(binned.brightness, low, step_log, levels),
        "order": binned.order,
        "edges": binned.edges,
        "number": moments.count,
        "inverse": moments.inverse,
        "inverse_square": moments.inverse_square,
        "first": moments.first,
        "second": moments.second,
        "spectrum": spectrum,
        "level_brightness": brightness,
        "lent": np.exp(-np.square(np.arange(levels)[:, None] - np.arange(levels, dtype=np.float64))),
        "down": gaussian_taps(settings.smoothing_px / step),
        "across": gaussian_taps(settings.smoothing_px),
    }
    found = {
        "law": np.empty((2, bands)),
        "mean": np.empty(bands),
        "covariance": np.empty((bands, bands)),
        "mean_noise": np.empty(bands),
        "weight": np.empty((levels, bands)),
        "level": np.empty((3, levels)),
        "neighbour": np.empty(bands),
        "direction": np.empty((min(DIRECTIONS, bands), bands)),
        "clutter": np.empty(min(DIRECTIONS, bands)),
        "told": np.empty(4),
        "doubtful": np.empty(bands, dtype=np.bool_),
    }
    job = _Learning(
        threads=workers,
        bands=bands,
        parts=binned.chunks.shape[1] // bands,
        bins=bins,
        levels=levels,
        passes=settings.passes,
        rows=shape[0],
        cols=shape[1],
        reach_down=len(given["down"]) // 2,
        reach_across=len(given["across"]) // 2,
        count=binned.order.size,
        side=moments.second.strides[1] // 8,
        ring_noise=ring_noise,
        plume_significance=settings.plume_significance,
        shrinkage=0.0,  # pixels are many: NumPy learns where they are few
        **{name: array.ctypes.data for name, array in (given | found).items()},
    )
    needs = np.empty(2, dtype=np.int64)
    kernels.learn_room(ctypes.byref(job), needs.ctypes.data)
    room, pixels = np.empty(needs[0]), np.empty(needs[1], dtype=np.float32)
    order = np.empty(2 * binned.order.size, dtype=np.int32)
    job.room, job.pixels, job.places = room.ctypes.data, pixels.ctypes.data, order.ctypes.data
    if kernels.learn_filter(ctypes.byref(job)) or not found["mean_noise"].any():
        return None  # without noise a covariance may have no inverse, which NumPy sees and tells
    law = NoiseLaw(found["law"][0], found["law"][1], found["doubtful"])
    offset, gain, sigma_ppm_m = found["level"]
    noise = law.variance(brightness)
    fitted = Levels(low, step_log, found["weight"], offset, gain, sigma_ppm_m, np.sqrt(np.median(noise, axis=0)))
    neighbour_mean, typical, *widening = (float(value) for value in found["told"])
    ground = Ground(
        law, fitted, found["neighbour"], neighbour_mean, found["mean"], found["covariance"], found["mean_noise"]
    )
    return ground, _anomaly(ground, spectrum, found["direction"], found["clutter"], typical, (widening[0], widening[1]))


def _anomaly(
    ground: Ground,
    spectrum: Float64[np.ndarray, " band"],
    direction: Float64[np.ndarray, "direction band"],
    clutter: Float64[np.ndarray, " direction"],
    typical: float,
    widening: tuple[float, float],
) -> Anomaly:
    square = np.square(direction)
    return Anomaly(
        direction=direction,
        mean=direction @ ground.mean,
        methane=direction @ spectrum,
        clutter=clutter,
        read_out=square @ ground.law.read_out,
        shot=square @ ground.law.shot,
        typical=typical,
        widening=widening,
    )
