"""The neural operator on the compiled kernels: Fourier layers and mini-UNets, as `flame.models.backbones.ufno` has them.

A block ends with a gate, one factor a channel, known only when the whole field is. It is never applied to the field:
everything that reads the field is linear, so the factors go into the weights of what comes next.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Complex64, Float32

from flame.onboard.native.library import SIDE, Image, Kernels, block_sizes, images, pack, shared_rows

__all__ = ["Crew", "Operator"]

LINEAR, LEAKY, _RELU, GELU = range(4)

Arrays = Mapping[str, np.ndarray]
Gate = Float32[np.ndarray, " channel"]


class Crew:
    """The kernels and the threads that share their rows."""

    def __init__(self, kernels: Kernels, threads: int) -> None:
        self.kernels = kernels
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

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
        """Images with the side of their kernels (1 or 3), convolved into one; `waves` are factors and waves of a DFT."""
        read = images(*(image.struct(side) for image, side in sources))
        factors, shapes = waves if waves is not None else (bias, bias)
        modes = 0 if waves is None else len(shapes)
        to, packed = out.struct(), pack(weight)
        where = None if sums is None else sums.ctypes.data
        shared_rows(
            self.pool,
            self.threads,
            out.rows,
            lambda first, last: self.kernels.convolve(
                *(first, last, out.cols, read, len(sources), packed.ctypes.data, bias.ctypes.data, kind),
                *(factors.ctypes.data, shapes.ctypes.data, modes, onto, to, where),
            ),
        )

    def down(self, source: Image, weight: np.ndarray, bias: np.ndarray, kind: int, out: Image) -> None:
        """Convolution of stride 2; the weight is (out, in, side, side), with a side of 3 or 2."""
        side = weight.shape[2]
        read, to, packed = source.struct(), out.struct(), pack(weight.reshape(len(weight), -1))

        def work(first: int, last: int) -> None:
            scratch = np.zeros(2 * source.channels * side * (out.cols + 2 * SIDE), dtype=np.float32)
            self.kernels.convolve_down(
                *(first, last, out.cols, read, side, packed.ctypes.data, bias.ctypes.data, kind, to),
                scratch.ctypes.data,
            )

        shared_rows(self.pool, self.threads, out.rows, work)

    def up(self, sources: list[Image], weight: np.ndarray, bias: np.ndarray, kind: int, out: Image) -> None:
        """Transposed convolution of stride 2; the weight is (in, out, side, side), with a side of 4 or 2."""
        side = weight.shape[2]
        read, to, packed = images(*(source.struct() for source in sources)), out.struct(), pack_up(weight)
        shared_rows(
            self.pool,
            self.threads,
            sources[0].rows,
            lambda first, last: self.kernels.convolve_up(
                *(first, last, sources[0].cols, read, len(sources), side, packed.ctypes.data, bias.ctypes.data),
                *(kind, to),
            ),
        )


def pack_up(weight: Float32[np.ndarray, "in out side side"]) -> np.ndarray:
    """Weights of a transposed convolution by parity of output row and column, for `convolve_up`.

    An output pixel of even row gets kernel row 3 of the input row before and kernel row 1 of its own; one of odd row gets
    2 of its own and 0 of the one after. Columns likewise. A kernel of side 2 has one row for each parity.
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
        pairs = np.stack([back.real, -back.imag], 1).reshape(2 * modes, cols)
        self._back_waves = np.ascontiguousarray(pairs, dtype=np.float32)
        down = np.concatenate([frequency, frequency - modes])
        self._rows = np.exp(-2j * np.pi * np.outer(np.arange(rows), down) / rows).astype(np.complex64)
        self._rows_back = (np.conj(self._rows).T / rows).astype(np.complex64)
        self._columns = np.zeros((channels, rows, self._parts), dtype=np.float32)
        self._edges = np.cumsum([0, *block_sizes(channels)])
        self._factors = np.zeros((rows, channels * 2 * modes), dtype=np.float32)

    def convolve(
        self, field: Image, mixing: Complex64[np.ndarray, "mode in out"], gate: Gate
    ) -> tuple[np.ndarray, np.ndarray]:
        """Factors, in the order `convolve` reads them, and waves whose products are the convolved field."""
        read, columns, crew = field.struct(), self._columns, self._crew
        shared_rows(
            crew.pool,
            crew.threads,
            field.rows,
            lambda first, last: crew.kernels.transform_rows(
                *(first, last, field.cols, read, self._waves.ctypes.data, columns.ctypes.data, field.rows)
            ),
            least=16,
        )
        modes = self._modes
        half = np.ascontiguousarray(columns[..., : 2 * modes]).view(np.complex64)  # (channel, row, column frequency)
        spectrum = half.transpose(0, 2, 1) @ self._rows * gate[:, None, None]  # (channel, column, row frequency)
        mixed = spectrum.reshape(len(gate), 1, -1).transpose(2, 1, 0) @ mixing  # (mode, 1, channel)
        back = mixed[:, 0].T.reshape(len(gate), modes, 2 * modes) @ self._rows_back  # (channel, column frequency, row)
        by_row = np.ascontiguousarray(back.transpose(2, 1, 0)).view(np.float32)  # (row, frequency, channel and part)
        by_row = by_row.reshape(field.rows, modes, len(gate), 2).swapaxes(2, 3).reshape(field.rows, 2 * modes, -1)
        for low, high in zip(self._edges[:-1], self._edges[1:], strict=True):
            here = slice(low * 2 * modes, high * 2 * modes)
            self._factors[:, here] = by_row[:, :, low:high].reshape(field.rows, -1)
        return self._factors, self._back_waves


class _UNet:
    """Buffers of the mini-UNets of one grid: three stride-2 levels down and up again."""

    def __init__(self, crew: Crew, channels: int, rows: int, cols: int) -> None:
        self._crew = crew
        self.upper = Image(channels, rows, cols)
        self._half, self._quarter, self._eighth = (
            [Image(channels, rows // step, cols // step) for _ in range(2)] for step in (2, 4, 8)
        )

    def run(self, field: Image, weights: Arrays, gate: Gate) -> Image:
        """Everything but the last convolution."""
        crew, half, quarter, eighth = self._crew, self._half, self._quarter, self._eighth

        def of(name: str) -> tuple[np.ndarray, np.ndarray]:
            return weights[f"{name}.weight"], weights[f"{name}.bias"]

        weight, bias = of("down1.0")
        crew.down(field, weight * gate[:, None, None], bias, LEAKY, half[0])
        for level, above, here in ((2, half, quarter), (3, quarter, eighth)):
            crew.down(above[0], *of(f"down{level}.0.0"), LEAKY, here[1])
            weight, bias = of(f"down{level}.1.0")
            crew.convolve([(here[1], 3)], weight.reshape(len(weight), -1), bias, LEAKY, here[0])
        crew.up([eighth[0]], *of("up3.0"), LEAKY, quarter[1])
        crew.up(quarter, *of("up2.0"), LEAKY, half[1])
        crew.up(half, *of("up1.0"), LEAKY, self.upper)
        return self.upper


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
        self._mixings = [(b["spectral.weight"][0] + 1j * b["spectral.weight"][1]).astype(np.complex64) for b in self._blocks]
        self._unet = _UNet(crew, channels, rows, cols)
        self._fields = [Image(channels, rows, cols) for _ in range(2)]
        self._sums = np.zeros((rows, channels), dtype=np.float32)

    def run(self, field: Image) -> tuple[Image, Gate]:
        """Features, and the factors that their channels are still to be multiplied by."""
        gate = np.ones(field.channels, dtype=np.float32)
        for number, (block, mixing) in enumerate(zip(self._blocks, self._mixings, strict=True)):
            waves = self._fourier.convolve(field, mixing, gate)
            sources = [(field, 1)]
            if "unet.out.weight" in block:
                upper = self._unet.run(field, _with_prefix(block, "unet."), gate)
                sources = [(field, 3), (upper, 3)]
                weight, bias = block["unet.out.weight"].copy(), block["unet.out.bias"]
            else:
                weight, bias = block["pointwise.weight"].copy(), block["pointwise.bias"]
            weight[:, : field.channels] *= gate[:, None, None]
            out = self._fields[number % 2]
            flat = weight.reshape(len(weight), -1)
            self._crew.convolve(sources, flat, bias, GELU, out, waves=waves, sums=self._sums)
            gate = _gate(block, self._sums.sum(axis=0, dtype=np.float64) / (field.rows * field.cols))
            field = out
        return field, gate


def _gate(block: Arrays, means: np.ndarray) -> Gate:
    hidden = np.maximum(block["gate.squeeze.weight"] @ means + block["gate.squeeze.bias"], 0.0)
    logit = block["gate.excite.weight"] @ hidden + block["gate.excite.bias"]
    return np.asarray(1.0 / (1.0 + np.exp(-logit)), dtype=np.float32)


def _with_prefix(arrays: Arrays, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
