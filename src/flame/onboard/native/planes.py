"""The second flame-plus on the compiled kernels: from planes to what it says of each pixel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float32

from flame.kernels import Image, Kernels, images, pack, struct_of
from flame.onboard.native.operator import Crew
from flame.onboard.native.pyramid import Pyramid
from flame.prepare.planes import MEANS

__all__ = ["NativePlanes"]


class NativePlanes:
    """One network for tiles of one size.

    Args:
        arrays: Its folded weights by name.
        rows: Combinations of the network's outputs: a logit, change of the median, log-spread, shares of the averages.
        held: Bounds, as the kernel `tell_planes` takes them.
        level: Level whose exceedance is asked for, in units of the planes' reference; 0 for the outline.
        shape: Rows and columns of the tile.
        kernels: The compiled kernels.
        threads: Threads to share rows among.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        rows: Float32[np.ndarray, "row output"],
        held: Float32[np.ndarray, 7],
        level: float,
        shape: tuple[int, int],
        kernels: Kernels,
        threads: int,
    ) -> None:
        self._arrays, self._shape, self._held = arrays, shape, held
        self._crew = Crew(kernels, threads)
        width, planes = arrays["lift.weight"].shape[:2]
        self._windows = len(arrays["weight_head.weight"])
        self._functions = len(arrays["functions"])
        self._scores = Image(2, *shape)
        self._trunk = Pyramid(self._crew, arrays, *shape)
        self._score = np.zeros(shape, dtype=np.float32)
        self._lift = pack(arrays["lift.weight"].reshape(width, planes))
        heads = ("weight_head", "background_head")
        self._heads = np.concatenate([pack(arrays[f"{head}.weight"].reshape(self._windows, -1)) for head in heads])
        self._head_bias = np.concatenate([arrays[f"{head}.bias"] for head in heads])
        near, second = arrays["segmentation.0.weight"], arrays["segmentation.2.weight"]
        beside = arrays["of_fields.weight"]
        self._near = pack(np.concatenate([near.reshape(len(near), -1), beside.reshape(len(near), -1)], axis=1))
        self._second = pack(second.reshape(len(second), -1))
        self._project = np.empty((len(rows), arrays["project.weight"].shape[1]), dtype=np.float32)
        self._offset = np.empty(len(rows), dtype=np.float32)
        self._rows, self._level = np.zeros_like(rows), level
        self.ask(rows, level)
        self._out = np.zeros((len(rows), *shape), dtype=np.float32)
        self._told = self._out[:5]  # each pixel is told of by its own outputs alone: they make room for it
        self._ones = np.ones(self._windows, dtype=np.float32)

    def ask(self, rows: Float32[np.ndarray, "row output"], level: float) -> None:
        """Asks for other combinations of its outputs, and another level, from now on; see the arguments.

        What was asked already changes nothing: in flight, where one thing is asked for ever, its memory stays as it is.
        """
        self._level = level
        if np.array_equal(rows, self._rows):
            return
        self._rows[:] = rows
        project = self._arrays["project.weight"]
        self._project[:] = rows @ project.reshape(len(project), -1)
        self._offset[:] = rows @ self._arrays["project.bias"]

    def infer(self, inputs: Mapping[str, Float32[np.ndarray, ...]]) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """Probability, enhancement, its spread, the filter's estimate, and the core; the next call overwrites them."""
        planes = inputs["planes"]
        self._lift_planes(planes)
        z = self._trunk.run()
        self._find_score(z, inputs)
        self._segment(z, planes)
        means = planes[0, self._functions + MEANS.start :]
        images_of = (array.ctypes.data for array in (self._score, inputs["significance"], inputs["sigma"]))
        self._crew.kernels.tell_planes(
            *(self._crew.threads, *self._shape, self._out.ctypes.data, means.ctypes.data),
            *(MEANS.step * planes.strides[1] // planes.itemsize, len(self._out) - 3, *images_of),
            *(self._level, self._held.ctypes.data, self._told.ctypes.data),
        )
        return tuple(self._told)

    def _lift_planes(self, planes: Float32[np.ndarray, "1 plane row col"]) -> None:
        crew = self._crew
        crew.kernels.lift(
            *(crew.threads, *self._shape, planes.ctypes.data, planes.shape[1], self._shape[0]),
            *(planes.ctypes.data, 0, self._lift.ctypes.data, self._arrays["lift.bias"].ctypes.data),
            self._trunk.lifted.struct(),
        )

    def _find_score(self, z: Image, inputs: Mapping[str, np.ndarray]) -> None:
        """Starts as the filter's estimate; see `flame.models.plus.FlamePlus.score`."""
        crew, windows = self._crew, inputs["windows"]
        crew.kernels.score(
            *(crew.threads, *self._shape, z.struct(), windows.ctypes.data, self._windows, self._shape[0]),
            *(self._heads.ctypes.data, self._head_bias.ctypes.data, self._ones.ctypes.data, 0.0),
            *(self._score.ctypes.data, None),
        )
        crew.kernels.rescore(
            *(crew.threads, *self._shape, self._score.ctypes.data, windows.ctypes.data, self._windows),
            *(inputs["significance"].ctypes.data, inputs["sigma"].ctypes.data, self._scores.struct()),
        )

    def _segment(self, z: Image, planes: Float32[np.ndarray, "1 plane row col"]) -> None:
        arrays, crew = self._arrays, self._crew
        biases = [arrays[f"segmentation.{layer}.bias"] for layer in (0, 2)]
        fields = planes[0, self._functions : planes.shape[1] - self._windows]
        # One pixel at a time needs no border: the fields are read where they stand.
        sources = (z.struct(3), self._scores.struct(3), struct_of(fields))
        crew.kernels.segment(
            *(crew.threads, *self._shape, images(*sources), len(sources)),
            *(self._near.ctypes.data, biases[0].ctypes.data, len(biases[0])),
            *(self._second.ctypes.data, biases[1].ctypes.data, len(biases[1])),
            *(self._project.ctypes.data, self._offset.ctypes.data, len(self._out), False, self._out.ctypes.data),
        )
