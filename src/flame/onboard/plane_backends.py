"""Engines for networks of planes: the same answers from the kernels, onnxruntime and OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import Float32

from flame.detection import RowStitcher, TileGrid
from flame.kernels import Kernels
from flame.onboard.manifest import ModelError, PlaneFacts
from flame.onboard.native import NativePlanes
from flame.onboard.native.shapes import check_plane_shapes
from flame.onboard.package import ModelPackage
from flame.prepare.planes import LOG_SPREADS

__all__ = ["MORE", "PlaneEngine", "PlaneGraph", "PlaneJudge", "PlaneNetwork", "plane_arrays"]

MORE = ("sigma", "estimate", "estimate_sigma")
"""Besides probability and score: spread of the score, and the filter's own estimate with its standard deviation."""

_TOLD = 4
_MOST_SIGMAS = 12.0
"""asinh of more standard deviations than any pixel has: e^12 / 2."""


def plane_arrays(model: ModelPackage) -> dict[str, np.ndarray]:
    """The weights of a network of planes, checked.

    Raises:
        ModelError: If they are not what the manifest says.
    """
    assert model.weights is not None
    try:
        arrays = safetensors.numpy.load(model.weights)
        check_plane_shapes(arrays, model.manifest)
    except (safetensors.SafetensorError, KeyError, ValueError, IndexError) as mistake:
        raise ModelError(f"{model.source}: the runtime cannot take its weights: {mistake}") from mistake
    return arrays


@dataclass(frozen=True)
class PlaneJudge:
    """What is asked of a network of planes.

    Attributes:
        facts: The network's.
        level_ppm_m: Enhancement that a plume pixel must exceed; None for an annotator's outline.
    """

    facts: PlaneFacts
    level_ppm_m: float | None = None

    def __post_init__(self) -> None:
        first, last = self.facts.levels_ppm_m[0], self.facts.levels_ppm_m[-1]
        if self.level_ppm_m is not None and not first <= self.level_ppm_m <= last:
            raise ModelError(f"level must be {first:g} to {last:g} ppm m for this model, got {self.level_ppm_m:g}")

    @property
    def rows(self) -> Float32[np.ndarray, "3 output"]:
        """Combinations of the network's outputs: the logit asked for, median and log-spread of the enhancement."""
        levels = len(self.facts.levels_ppm_m)
        rows = np.zeros((3, levels + 3), dtype=np.float32)
        rows[1, levels + 1] = rows[2, levels + 2] = 1.0
        if self.level_ppm_m is None:
            rows[0, levels] = 1.0
            return rows
        place = float(np.interp(np.log(self.level_ppm_m), np.log(self.facts.levels_ppm_m), np.arange(levels)))
        below = min(int(place), levels - 2)
        rows[0, below], rows[0, below + 1] = 1.0 - (place - below), place - below
        return rows

    def maps(
        self,
        out: Float32[np.ndarray, "3 row col"],
        score: Float32[np.ndarray, "row col"],
        sigma: Float32[np.ndarray, "row col"],
    ) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """Probability, enhancement and its standard deviation, the last two in units of the reference."""
        probability, change, log_spread = out
        median = np.clip(np.arcsinh(score) + change, -_MOST_SIGMAS, _MOST_SIGMAS)
        spread = np.exp(np.clip(log_spread, *LOG_SPREADS))
        return probability, sigma * np.sinh(median), sigma * np.cosh(median) * spread


@runtime_checkable
class PlaneNetwork(Protocol):
    """A network that takes planes."""

    def infer(self, inputs: Mapping[str, Float32[np.ndarray, ...]]) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """Probability, enhancement, its spread, and the filter's estimate; all but the first in the unit of sigma."""
        ...


class PlaneGraph:
    """A graph with outputs `maps` and `score` as such a network.

    Args:
        run: Runs the graph.
        judge: What is asked.
    """

    def __init__(self, run: PlaneRun, judge: PlaneJudge) -> None:
        self._run, self._judge = run, judge

    def infer(self, inputs: Mapping[str, Float32[np.ndarray, ...]]) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """See `PlaneNetwork`."""
        maps, score = self._run(inputs)
        out = np.einsum("kn,nrc->krc", self._judge.rows, maps[0])
        out[0] = 1.0 / (1.0 + np.exp(-np.clip(out[0], -80.0, 80.0)))
        sigma = inputs["sigma"][0]
        return *self._judge.maps(out, score[0], sigma), inputs["significance"][0] * sigma


@runtime_checkable
class PlaneRun(Protocol):
    """Runs a graph of two outputs."""

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The outputs `maps` and `score`."""
        ...


class PlaneEngine:
    """A network of planes as a `Backend`: what it says, and what the filter it stands on says.

    A network looks at windows as large as those it was trained on: what its Fourier modes mean depends on their size.
    The planes around are the tile's, so its background is still learned from all of it. A tile smaller than a window is
    continued by its mirror image.

    Args:
        network: The network.
        facts: Its facts.
        name: Engine and version.
    """

    more: tuple[str, ...] = MORE

    def __init__(self, network: PlaneNetwork, facts: PlaneFacts, name: str) -> None:
        self._network = network
        self._grid = TileGrid(facts.window, facts.overlap)
        self.name, self.block_rows = name, 1

    @classmethod
    def native(cls, model: ModelPackage, judge: PlaneJudge, kernels: Kernels, threads: int) -> PlaneEngine:
        """On the compiled kernels."""
        held = (*LOG_SPREADS, _MOST_SIGMAS)
        network = NativePlanes(plane_arrays(model), judge.rows, held, judge.facts.window, kernels, threads)
        return cls(network, judge.facts, f"native ({kernels.instructions})")

    def infer(self, inputs: Mapping[str, Float32[np.ndarray, ...]]) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """See `Backend`."""
        rows, cols = inputs["sigma"].shape[1:]
        whole = {name: self._mirrored(array) for name, array in inputs.items()}
        high, wide = whole["sigma"].shape[1:]
        stitcher = RowStitcher(_TOLD, wide, self._grid)
        parts = []
        for down in self._grid.spans(high):
            for across in self._grid.spans(wide):
                here = (..., slice(down.start, down.stop), slice(across.start, across.stop))
                seen = {name: np.ascontiguousarray(array[here]) for name, array in whole.items()}
                stitcher.add(down, across, np.stack(self._network.infer(seen)))
            parts.append(stitcher.take(down.settled))
        told = np.concatenate(parts, axis=1)[:, :rows, :cols]
        return *told, inputs["sigma"][0]

    def _mirrored(self, array: Float32[np.ndarray, ...]) -> Float32[np.ndarray, ...]:
        """An array at least as large as a window."""
        grow = [max(0, self._grid.tile - side) for side in array.shape[-2:]]
        if not any(grow):
            return array
        return np.pad(array, [(0, 0)] * (array.ndim - 2) + [(0, more) for more in grow], mode="symmetric")
