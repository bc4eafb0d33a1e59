"""The neural operator on the compiled kernels: Fourier layers and mini-UNets, as in `flame.models.backbones.ufno`.

A block ends with a gate, one factor a channel, known only when the whole field is. It is never applied to the field:
everything that reads the field is linear, so the factors go into the weights of what comes next.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from jaxtyping import Complex64, Float32

from flame.kernels import TILE_STEP, Image, Kernels, block_sizes, images, pack

__all__ = ["LEAKY", "LINEAR", "Crew", "Operator", "pack_scaled", "pack_up"]

LINEAR, LEAKY, _RELU, GELU = range(4)

Arrays = Mapping[str, np.ndarray]
Gate = Float32[np.ndarray, " channel"]


class Crew:
    """The kernels, and how many threads each of them shares its rows among."""

    def __init__(self, kernels: Kernels, threads: int) -> None:
        self.kernels = kernels
        self.threads = threads

    def convolve(
        self,
        sources: list[tuple[Image, int]],
        weight: np.ndarray,
        bias: np.ndarray,
        kind: int,
        out: Image,
        *,
        onto: bool = False,
        waves: tuple[np.ndarray, np.ndarray] | None = None,
        sums: np.ndarray | None = None,
    ) -> None:
        """Images with the side of their kernels (1 or 3), convolved into one by packed weights.

        With `waves`, factors and waves of a Fourier transform, these are added.
        """
        factors, shapes = waves if waves is not None else (bias, bias)
        self.kernels.convolve(
            *(self.threads, out.rows, out.cols, images(*(image.struct(side) for image, side in sources)), len(sources)),
            *(weight.ctypes.data, bias.ctypes.data, kind, factors.ctypes.data, shapes.ctypes.data),
            *(0 if waves is None else len(shapes), onto, out.struct(), None if sums is None else sums.ctypes.data),
        )

    def down(self, source: Image, side: int, weight: np.ndarray, bias: np.ndarray, kind: int, out: Image) -> None:
        """Convolution of stride 2 by packed weights of side 3 or 2."""
        self.kernels.convolve_down(
            *(self.threads, out.rows, out.cols, source.struct(), side, weight.ctypes.data, bias.ctypes.data, kind),
            out.struct(),
        )

    def up(self, sources: list[Image], side: int, weight: np.ndarray, bias: np.ndarray, kind: int, out: Image) -> None:
        """Transposed convolution of stride 2 by weights of side 4 or 2 from `pack_up`."""
        read = images(*(source.struct() for source in sources))
        self.kernels.convolve_up(
            *(self.threads, sources[0].rows, sources[0].cols, read, len(sources), side, weight.ctypes.data),
            *(bias.ctypes.data, kind, out.struct()),
        )

    def up_onto(
        self, sources: list[Image], weight: np.ndarray, bias: np.ndarray, beside: np.ndarray, to: Image
    ) -> None:
        """Transposed convolution of side 4 without activation, plus a 1 x 1 of what stands in `to`, in its place."""
        read = images(*(source.struct() for source in sources))
        self.kernels.convolve_up_onto(
            *(self.threads, sources[0].rows, sources[0].cols, read, len(sources), 4, weight.ctypes.data),
            *(bias.ctypes.data, beside.ctypes.data, to.struct()),
        )


def pack_scaled(weight: Float32[np.ndarray, "out in *side"], gate: Gate) -> np.ndarray:
    """Packed weights of a convolution whose first inputs are still to be multiplied by a gate."""
    scaled = weight.reshape(*weight.shape[:2], -1).copy()
    scaled[:, : len(gate)] *= gate[:, None]
    return pack(scaled.reshape(len(weight), -1))


def pack_up(weight: Float32[np.ndarray, "in out side side"]) -> np.ndarray:
    """Weights of a transposed convolution by parity of output row and column, for `convolve_up`.

    An output pixel of even row gets kernel row 3 of the input row before and 1 of its own; one of odd row gets 2 of its
    own and 0 of the one after. Columns likewise. A kernel of side 2 has one row for each parity.
    """
    chosen = ([3, 1], [2, 0]) if weight.shape[2] == 4 else ([0], [1])
    parts = []
    for rows in chosen:
        for cols in chosen:
            taps = weight[:, :, rows][:, :, :, cols]  # (in, out, row, col)
            parts.append(pack(taps.swapaxes(0, 1).reshape(weight.shape[1], -1)))
    return np.concatenate(parts)


class _Fourier:
    """The truncated transform for one grid."""

    def __init__(self, crew: Crew, channels: int, modes: int, rows: int, cols: int) -> None:
        self._crew = crew
        self._modes = modes
        self._parts = int(crew.kernels.transform_parts())
        if 2 * modes > self._parts:
            raise ValueError(f"the kernels were compiled for {self._parts // 2} Fourier modes, the model has {modes}")
        frequency = np.arange(modes)
        turns = np.exp(-2j * np.pi * np.outer(np.arange(cols), frequency) / cols)
        self._waves = np.zeros((cols, self._parts), dtype=np.float32)
        self._waves[:, : 2 * modes] = np.stack([turns.real, turns.imag], -1).reshape(cols, -1)
        # Every frequency but 0 stands for itself and its mirror image.
        back = np.conj(turns).T * np.where(frequency == 0, 1.0, 2.0)[:, None] / cols
        # The kernels read whole vectors: beyond the last column stand zeros.
        self._back_waves = np.zeros((2 * modes, -(-cols // TILE_STEP) * TILE_STEP), dtype=np.float32)
        self._back_waves[:, :cols] = np.stack([back.real, -back.imag], 1).reshape(2 * modes, cols)
        down = np.concatenate([frequency, frequency - modes])
        self._rows = np.exp(-2j * np.pi * np.outer(down, np.arange(rows)) / rows).astype(np.complex64)
        self._rows_back = np.ascontiguousarray(np.conj(self._rows).T / np.float32(rows))
        self._columns = np.zeros((channels, rows, self._parts), dtype=np.float32)
        self._edges = np.cumsum([0, *block_sizes(channels)])
        self._factors = np.zeros((rows, channels * 2 * modes), dtype=np.float32)

    def convolve(
        self, field: Image, mixing: Complex64[np.ndarray, mode in out], gate: Gate
    ) -> tuple[np.ndarray, np.ndarray]:
        """Factors, in the order `convolve` reads them, and waves whose products are the convolved field."""
        columns, crew = self._columns, self._crew
        crew.kernels.transform_rows(
            *(crew.threads, field.rows, field.cols, field.struct(), self._waves.ctypes.data, columns.ctypes.data)
        )
        modes, channels, rows = self._modes, len(gate), field.rows
        half = np.ascontiguousarray(columns[..., : 2 * modes]).view(np.complex64)  # (channel, row, column frequency)
        spectrum = (self._rows @ half).reshape(channels, -1) * gate[:, None]  # (channel, row and column frequency)
        mixed = np.einsum("im,mio->mo", spectrum, mixing).reshape(2 * modes, -1)
        back = (self._rows_back @ mixed).view(np.float32).reshape(rows, modes, channels, 2)
        for low, high in pairwise(self._edges):
            factors = self._factors[:, low * 2 * modes : high * 2 * modes].reshape(rows, modes, 2, high - low)
            factors[...] = back[:, :, low:high].swapaxes(2, 3)
        return self._factors, self._back_waves


def mixing_of(weight: Float32[np.ndarray, "2 mode in out"]) -> Complex64[np.ndarray, mode in out]:
    """Complex weights of a spectral layer with their modes ordered (row, column) instead of (column, row)."""
    modes = round((weight.shape[1] / 2) ** 0.5)
    mixing = (weight[0] + 1j * weight[1]).astype(np.complex64).reshape(modes, 2 * modes, *weight.shape[2:])
    return np.ascontiguousarray(mixing.swapaxes(0, 1)).reshape(weight.shape[1:])


class _UNet:
    """Buffers of the mini-UNets of one grid: three stride-2 levels down and up again."""

    def __init__(self, crew: Crew, channels: int, rows: int, cols: int) -> None:
        self._crew = crew
        self.upper = Image(channels, rows, cols)
        self._half, self._quarter, self._eighth = (
            [Image(channels, rows // step, cols // step) for _ in range(2)] for step in (2, 4, 8)
        )

    def run(self, field: Image, weights: Arrays, packed: Arrays, gate: Gate) -> Image:
        """Everything but the last convolution; `packed` are the weights of all layers but the first."""
        crew, half, quarter, eighth = self._crew, self._half, self._quarter, self._eighth

        def of(name: str) -> tuple[np.ndarray, np.ndarray, int]:
            return packed[f"{name}.weight"], weights[f"{name}.bias"], LEAKY

        crew.down(field, 3, pack_scaled(weights["down1.0.weight"], gate), weights["down1.0.bias"], LEAKY, half[0])
        for level, above, here in ((2, half, quarter), (3, quarter, eighth)):
            crew.down(above[0], 3, *of(f"down{level}.0.0"), here[1])
            crew.convolve([(here[1], 3)], *of(f"down{level}.1.0"), here[0])
        crew.up([eighth[0]], 4, *of("up3.0"), quarter[1])
        crew.up(quarter, 4, *of("up2.0"), half[1])
        crew.up(half, 4, *of("up1.0"), self.upper)
        return self.upper


def _packed_unet(weights: Arrays) -> dict[str, np.ndarray]:
    return {
        name: pack_up(weight) if name.startswith("up") else pack(weight.reshape(len(weight), -1))
        for name, weight in weights.items()
        if name.endswith("weight")
    }


class Operator:
    """All blocks on one grid.

    Args:
        crew: Kernels and threads.
        arrays: Weights by name, without prefix: `blocks.0.spectral.weight` and so on.
        rows: Rows of the grid.
        cols: Columns.
    """

    def __init__(self, crew: Crew, arrays: Arrays, rows: int, cols: int) -> None:
        self._crew = crew
        names = {name.split(".")[1] for name in arrays}
        self._blocks = [_with_prefix(arrays, f"blocks.{number}.") for number in range(len(names))]
        first = self._blocks[0]["spectral.weight"]
        channels, modes = first.shape[2], round((first.shape[1] / 2) ** 0.5)
        self._fourier = _Fourier(crew, channels, modes, rows, cols)
        self._mixings = [mixing_of(block["spectral.weight"]) for block in self._blocks]
        self._unet = _UNet(crew, channels, rows, cols)
        self._unets = [_with_prefix(block, "unet.") for block in self._blocks]
        self._packed = [_packed_unet(weights) for weights in self._unets]
        self._fields = [Image(channels, rows, cols) for _ in range(2)]
        self._sums = np.zeros((rows, channels), dtype=np.float32)

    def run(self, field: Image) -> tuple[Image, Gate]:
        """Features, and the factors that their channels are still to be multiplied by."""
        gate = np.ones(field.channels, dtype=np.float32)
        for number, (block, unet) in enumerate(zip(self._blocks, self._unets, strict=True)):
            waves = self._fourier.convolve(field, self._mixings[number], gate)
            sources, last = [(field, 1)], "pointwise"
            if unet:
                upper = self._unet.run(field, unet, self._packed[number], gate)
                sources, last = [(field, 3), (upper, 3)], "unet.out"
            weight, bias = pack_scaled(block[f"{last}.weight"], gate), block[f"{last}.bias"]
            out = self._fields[number % 2]
            self._crew.convolve(sources, weight, bias, GELU, out, waves=waves, sums=self._sums)
            gate = _gate(block, self._sums.sum(axis=0, dtype=np.float64) / (field.rows * field.cols))
            field = out
        return field, gate


def _gate(block: Arrays, means: np.ndarray) -> Gate:
    hidden = np.maximum(block["gate.squeeze.weight"] @ means + block["gate.squeeze.bias"], 0.0)
    logit = block["gate.excite.weight"] @ hidden + block["gate.excite.bias"]
    return np.asarray(1.0 / (1.0 + np.exp(-logit)), dtype=np.float32)


def _with_prefix(arrays: Arrays, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
