"""Engines for networks of planes: the same answers from the kernels, onnxruntime and OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import Float32

from flame.kernels import TILE_STEP, Kernels
from flame.onboard.manifest import ModelError, PlaneFacts
from flame.onboard.native import NativePlanes
from flame.onboard.native.shapes import check_plane_shapes
from flame.onboard.package import ModelPackage
from flame.prepare.planes import (
    FIELD_NAMES,
    LEAST_SIGMA_SHARE,
    LEAST_SPREAD,
    LOG_SPREADS,
    MEANS,
    MOST_LEAD,
    MOST_SIGMA_PPM_M,
    NORMAL_TO_LOGIT,
    WIDTHS_PX,
    WITNESS,
)

__all__ = ["MORE", "PlaneEngine", "PlaneGraph", "PlaneJudge", "PlaneNetwork", "plane_arrays"]

MORE = ("sigma", "estimate", "core", "estimate_sigma")
"""Besides probability and score: spread of the score, the filter's own estimate, how surely both say that there is gas,
and the standard deviation of the estimate."""

_SAMPLED = 128
"""Rows and columns of a tile, at least, that tell what is usual in it."""

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
        follows_scene: Whether the level is told by the standard deviation of the estimate in a usual pixel of each
            tile.
    """

    facts: PlaneFacts
    level_ppm_m: float | None = None
    follows_scene: bool = False

    def __post_init__(self) -> None:
        if self.level_ppm_m is not None:
            self.facts.check_level(self.level_ppm_m)

    def of_tile(self, sigma: Float32[np.ndarray, "row col"]) -> PlaneJudge:
        """What is asked of one tile, where a level that follows the scene has become a number.

        Args:
            sigma: Standard deviation of the estimate, in units of the planes' reference.
        """
        if not self.follows_scene:
            return self
        reference = self.facts.planes.reference_ppm_m
        step = max(1, min(sigma.shape) // _SAMPLED)
        sample = sigma[::step, ::step]
        seen = sample[sample < MOST_SIGMA_PPM_M / reference]
        usual_ppm_m = reference * float(np.median(seen)) if seen.size else np.inf
        return PlaneJudge(self.facts, self.facts.scene_level(usual_ppm_m))

    @property
    def level(self) -> float:
        """The level in units of the planes' reference; 0 for the outline."""
        return (self.level_ppm_m or 0.0) / self.facts.planes.reference_ppm_m

    @property
    def rows(self) -> Float32[np.ndarray, "row output"]:
        """Combinations of the network's outputs: a logit, change of the median, log-spread, shares of the averages."""
        levels, more = len(self.facts.levels_ppm_m), 2 + len(WIDTHS_PX)
        rows = np.zeros((1 + more, levels + 1 + more), dtype=np.float32)
        rows[1:, levels + 1 :] = np.eye(more)
        if self.level_ppm_m is None:
            rows[0, levels] = 1.0
            return rows
        place = float(np.interp(np.log(self.level_ppm_m), np.log(self.facts.levels_ppm_m), np.arange(levels)))
        below = min(int(place), levels - 2)
        rows[0, below], rows[0, below + 1] = 1.0 - (place - below), place - below
        return rows

    @property
    def held(self) -> Float32[np.ndarray, 7]:
        """Bounds, as the kernel `tell_planes` takes them."""
        lead = LEAST_SPREAD, MOST_LEAD, NORMAL_TO_LOGIT
        return np.array([*LOG_SPREADS, _MOST_SIGMAS, *lead, LEAST_SIGMA_SHARE], dtype=np.float32)

    def maps(
        self,
        out: Float32[np.ndarray, "row_of_outputs row col"],
        score: Float32[np.ndarray, "row col"],
        inputs: Mapping[str, Float32[np.ndarray, ...]],
    ) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """Probability, enhancement, its spread, the filter's estimate, and the core.

        Enhancement, spread and estimate are in units of the reference. The core is the geometric mean of two numbers of
        standard deviations: of the network's enhancement, which counts three times, and of the filter's estimate
        averaged over the widest Gaussian. What only one of them sees is seldom gas.

        The reference for the kernel `tell_planes`, which does the same.
        """
        sigma = inputs["sigma"][0]
        first = inputs["planes"].shape[1] - inputs["windows"].shape[1] - len(FIELD_NAMES)
        means = np.arcsinh(np.sinh(inputs["planes"][0, first:][MEANS]) / sigma)
        shares = np.exp(np.clip(out[3:], -20.0, 20.0))
        middle = (np.arcsinh(score) + (shares * means).sum(axis=0)) / (1.0 + shares.sum(axis=0))
        median = np.clip(middle + out[1], -_MOST_SIGMAS, _MOST_SIGMAS)
        spread = np.exp(np.clip(out[2], *LOG_SPREADS))
        logit = out[0]
        if self.level > 0:
            ahead = NORMAL_TO_LOGIT * (median - np.arcsinh(self.level / sigma)) / np.hypot(spread, LEAST_SPREAD)
            logit = logit + MOST_LEAD * np.tanh(ahead / MOST_LEAD)
        probability = 1.0 / (1.0 + np.exp(-np.clip(logit, -80.0, 80.0)))
        own = np.maximum(np.cosh(median) * spread, LEAST_SIGMA_SHARE)
        witness = np.sinh(inputs["planes"][0, first + WITNESS])
        sure = np.maximum(np.sinh(median) / own, 0.0)
        core = np.sqrt(sure * np.sqrt(sure * np.maximum(witness, 0.0)))
        told = (probability, sigma * np.sinh(median), sigma * own, inputs["significance"][0] * sigma, core)
        return tuple(each.astype(np.float32, copy=False) for each in told)


@runtime_checkable
class PlaneNetwork(Protocol):
    """A network that takes planes."""

    def infer(
        self, inputs: Mapping[str, Float32[np.ndarray, ...]], judge: PlaneJudge
    ) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """Probability, enhancement, its spread, the filter's estimate, and the core; see `PlaneJudge.maps`."""
        ...


class PlaneGraph:
    """A graph with outputs `maps` and `score` as such a network.

    Args:
        run: Runs the graph.
    """

    def __init__(self, run: PlaneRun) -> None:
        self._run = run

    def infer(
        self, inputs: Mapping[str, Float32[np.ndarray, ...]], judge: PlaneJudge
    ) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """See `PlaneNetwork`."""
        maps, score = self._run(inputs)
        return judge.maps(np.einsum("kn,nrc->krc", judge.rows, maps[0]), score[0], inputs)


@runtime_checkable
class PlaneRun(Protocol):
    """Runs a graph of two outputs."""

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The outputs `maps` and `score`."""
        ...


class NativeOfAnySize:
    """The network on the compiled kernels, for tiles of one size and, made when needed, of one other.

    Args:
        model: The package.
        judge: What is asked first.
        kernels: The compiled kernels.
        threads: Threads to share rows among.
    """

    def __init__(self, model: ModelPackage, judge: PlaneJudge, kernels: Kernels, threads: int) -> None:
        self._arrays = plane_arrays(model)
        self._kernels, self._threads = kernels, threads
        side = _whole_steps(model.manifest.tile)
        self._usual = self._made((side, side), judge)
        self._other: tuple[tuple[int, int], NativePlanes] | None = None
        self._shape = (side, side)

    def infer(
        self, inputs: Mapping[str, Float32[np.ndarray, ...]], judge: PlaneJudge
    ) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """See `PlaneNetwork`."""
        rows, cols = inputs["sigma"].shape[1:]
        network = self._usual
        if (rows, cols) != self._shape:
            if self._other is None or self._other[0] != (rows, cols):
                self._other = (rows, cols), self._made((rows, cols), judge)
            network = self._other[1]
        network.ask(judge.rows, judge.level)
        return network.infer(inputs)

    def _made(self, shape: tuple[int, int], judge: PlaneJudge) -> NativePlanes:
        return NativePlanes(
            self._arrays, judge.rows, judge.held, judge.level, shape, kernels=self._kernels, threads=self._threads
        )


class PlaneEngine:
    """A network of planes as a `Backend`: what it says, and what the filter it stands on says.

    A tile whose sides are no multiples of what the kernels take at a time is continued by its mirror image.

    Args:
        network: The network.
        judge: What is asked.
        name: Engine and version.
    """

    more: tuple[str, ...] = MORE

    def __init__(self, network: PlaneNetwork, judge: PlaneJudge, name: str) -> None:
        self._network, self._judge = network, judge
        self.name, self.block_rows = name, 1

    @classmethod
    def native(cls, model: ModelPackage, judge: PlaneJudge, kernels: Kernels, threads: int) -> PlaneEngine:
        """On the compiled kernels."""
        return cls(NativeOfAnySize(model, judge, kernels, threads), judge, f"native ({kernels.instructions})")

    def infer(self, inputs: Mapping[str, Float32[np.ndarray, ...]]) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """See `Backend`."""
        rows, cols = inputs["sigma"].shape[1:]
        whole = {name: _mirrored(array) for name, array in inputs.items()}
        told = self._network.infer(whole, self._judge.of_tile(inputs["sigma"][0]))
        return *(each[:rows, :cols] for each in told), inputs["sigma"][0]


def _whole_steps(side: int) -> int:
    return -(-side // TILE_STEP) * TILE_STEP


def _mirrored(array: Float32[np.ndarray, ...]) -> Float32[np.ndarray, ...]:
    """An array whose sides are whole steps."""
    grow = [_whole_steps(side) - side for side in array.shape[-2:]]
    if not any(grow):
        return array
    return np.pad(array, [(0, 0)] * (array.ndim - 2) + [(0, more) for more in grow], mode="symmetric")
