"""The second flame-plus on the compiled kernels: from planes to what it says of each pixel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float32
from threadpoolctl import ThreadpoolController

from flame.kernels import Image, Kernels, images, pack
from flame.onboard.native.operator import Crew, pack_scaled
from flame.onboard.native.trunk import Trunk

__all__ = ["NativePlanes"]


class NativePlanes:
    """One network for tiles of one size.

    Args:
        arrays: Its folded weights by name.
        rows: Combinations of the network's outputs: the logit asked for, change of the median, log-spread.
        held: Least and greatest log-spread, and greatest median, in asinh of standard deviations.
        tile: Side of the tile, in pixels.
        kernels: The compiled kernels.
        threads: Threads to share rows among.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        rows: Float32[np.ndarray, "3 output"],
        held: tuple[float, float, float],
        tile: int,
        kernels: Kernels,
        threads: int,
    ) -> None:
        self._arrays, self._side, self._held = arrays, tile, held
        self._crew = Crew(kernels, threads)
        self._blas = ThreadpoolController()
        width, planes = arrays["lift.weight"].shape[:2]
        self._windows = len(arrays["weight_head.weight"])
        self._functions = len(arrays["functions"])
        self._fields = Image(planes - self._functions - self._windows, tile, tile)
        self._scores = Image(2, tile, tile)
        self._trunk = Trunk(self._crew, arrays, width, tile)
        self._unused = Image(1, tile, tile)
        self._score = np.zeros((tile, tile), dtype=np.float32)
        self._lift = pack(arrays["lift.weight"].reshape(width, planes))
        project = arrays["project.weight"].reshape(len(arrays["project.weight"]), -1)
        self._project = np.ascontiguousarray(rows @ project, dtype=np.float32)
        self._offset = np.ascontiguousarray(rows @ arrays["project.bias"], dtype=np.float32)
        self._out, self._told = (np.zeros((3, tile, tile), dtype=np.float32) for _ in range(2))
        self._ones = np.ones(self._windows, dtype=np.float32)

    def infer(self, inputs: Mapping[str, Float32[np.ndarray, ...]]) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """Probability, enhancement, its spread, and the filter's estimate; the next call overwrites them."""
        # Threads of BLAS gain nothing on matrices this small and take the cores from the kernels.
        with self._blas.limit(limits=1, user_api="blas"):
            z, gate = self._features(inputs["planes"])
            self._find_score(z, gate, inputs)
            self._segment(z, gate)
        self._crew.kernels.tell_planes(
            *(self._crew.threads, self._side, self._side, self._out.ctypes.data, self._score.ctypes.data),
            *(inputs["significance"].ctypes.data, inputs["sigma"].ctypes.data, *self._held),
            self._told.ctypes.data,
        )
        return self._out[0], *self._told

    def _features(self, planes: Float32[np.ndarray, "1 plane row col"]) -> tuple[Image, np.ndarray]:
        side, crew = self._side, self._crew
        crew.kernels.lift(
            *(crew.threads, side, side, planes.ctypes.data, planes.shape[1], side),
            *(planes.ctypes.data, 0, self._lift.ctypes.data, self._arrays["lift.bias"].ctypes.data),
            self._trunk.lifted.struct(),
        )
        self._fields.pixels[:] = planes[0, self._functions : planes.shape[1] - self._windows]
        return self._trunk.run()

    def _find_score(self, z: Image, gate: np.ndarray, inputs: Mapping[str, np.ndarray]) -> None:
        """Starts as the filter's estimate; see `flame.models.plus.FlamePlus.score`."""
        arrays, crew, windows = self._arrays, self._crew, inputs["windows"]
        heads = ("weight_head", "background_head")
        weight = np.concatenate([pack(arrays[f"{head}.weight"].reshape(self._windows, -1) * gate) for head in heads])
        bias = np.concatenate([arrays[f"{head}.bias"] for head in heads])
        crew.kernels.score(
            *(crew.threads, self._side, self._side, z.struct(), windows.ctypes.data, self._windows, self._side),
            *(weight.ctypes.data, bias.ctypes.data, self._ones.ctypes.data, 0.0, self._score.ctypes.data),
            self._unused.struct(),
        )
        crew.kernels.rescore(
            *(crew.threads, self._side, self._side, self._score.ctypes.data, windows.ctypes.data, self._windows),
            *(inputs["significance"].ctypes.data, inputs["sigma"].ctypes.data, self._scores.struct()),
        )

    def _segment(self, z: Image, gate: np.ndarray) -> None:
        arrays, crew = self._arrays, self._crew
        first, second = (arrays[f"segmentation.{layer}.weight"] for layer in (0, 3))
        weights = [pack_scaled(first, gate), pack(second.reshape(len(second), -1))]
        biases = [arrays[f"segmentation.{layer}.bias"] for layer in (0, 3)]
        sources = (z, self._fields, self._scores)
        crew.kernels.segment(
            *(crew.threads, self._side, self._side, images(*(source.struct(3) for source in sources)), len(sources)),
            *(weights[0].ctypes.data, biases[0].ctypes.data, len(first), weights[1].ctypes.data, biases[1].ctypes.data),
            *(len(second), self._project.ctypes.data, self._offset.ctypes.data, len(self._out), self._out.ctypes.data),
        )
