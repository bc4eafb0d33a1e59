"""From a tile of radiance to the inputs of a model's graph, in NumPy: validity, logarithm, fill, background.

These are the model's own first steps, done outside its graph where they are cheap and where bad pixels can be stopped.
Tests hold them equal to the torch model's.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt8
from threadpoolctl import ThreadpoolController

from flame.kernels import load_kernels, takes
from flame.onboard.background import STATISTICS, Whitener, tile_background
from flame.onboard.manifest import BackgroundFacts, Manifest
from flame.onboard.quality import UNUSABLE, Quality, pixel_quality

__all__ = ["PreparedTile", "TilePreparer", "fill_unusable"]

_CHUNK_ROWS = 16


@dataclass(frozen=True, eq=False)
class PreparedTile:
    """A tile ready for inference.

    Attributes:
        inputs: Arrays by graph input name; None if the tile has too few usable pixels. They live in buffers that the
            next tile overwrites.
        quality: Quality bits of each pixel.
        usable: Pixels that take part.
    """

    inputs: dict[str, Float32[np.ndarray, ...]] | None
    quality: UInt8[np.ndarray, "row col"]
    usable: Bool[np.ndarray, "row col"]

    @property
    def flags(self) -> Quality:
        """All bits that occur in the tile."""
        return Quality(int(np.bitwise_or.reduce(self.quality, axis=None)))


class TilePreparer:
    """Prepares tiles of one model, reusing its buffers; memory stays at one tile of spectra.

    Args:
        manifest: The model's facts.
        threads: Threads for the passes over the spectra.
        block_rows: Rows of a block of spectra, if not those of the manifest.
    """

    def __init__(self, manifest: Manifest, threads: int = 1, block_rows: int | None = None) -> None:
        side, bands = manifest.tile, len(manifest.band_centres_nm)
        self._manifest = manifest
        self._spectrum = np.array(manifest.absorption)
        self._block_rows = block_rows or manifest.block_rows
        self._spectra = np.empty((side // self._block_rows, bands, self._block_rows, side), dtype=np.float32)
        self._statistics = np.zeros((1, len(STATISTICS) if "statistics" in manifest.inputs else 0, side, side), "f4")
        self._low = np.empty((side, side), dtype=np.float32)
        self._high = np.empty((side, side), dtype=np.float32)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._kernels = load_kernels() if takes(side, bands) else None
        self._least_pixels = 2 * bands
        self._blas = ThreadpoolController()

    def prepare(
        self,
        radiance: Float32[np.ndarray, "band row col"],
        valid: Bool[np.ndarray, "row col"],
        rgb: Float32[np.ndarray, "3 row col"] | None,
        first: int = 0,
    ) -> PreparedTile:
        """Inputs for one tile, at most as large as the model's; what is missing below and right counts as invalid.

        Args:
            radiance: The tile's radiance; a ring of rows if `first` is not 0.
            valid: Pixels that may be used.
            rgb: The tile's colours, if known.
            first: Where in `radiance` the tile's first row stands; after the last row comes row 0.
        """
        rows, cols = valid.shape
        side = self._manifest.tile
        floor, level = self._floor(radiance, valid, first)
        # Spectra to be whitened are divided by each band's level first. That cancels with their mean, and float32 has
        # more digits for a logarithm near zero; whitening magnifies its rounding a thousand times.
        share = 1.0 / level if "whitened" in self._manifest.inputs else np.ones(len(level))
        self._take_logarithm(radiance, rows, cols, first, floor, share.astype(np.float32))
        quality = np.full((side, side), Quality.INVALID, dtype=np.uint8)
        low, high = self._low[:rows, :cols], self._high[:rows, :cols]
        quality[:rows, :cols] = pixel_quality(low, high, valid, self._manifest.saturation_radiance, floor)
        if "rgb" in self._manifest.inputs:
            quality[:rows, :cols] |= self._colour_quality(rgb)
        usable = (quality & UNUSABLE) == 0
        if int(usable.sum()) < self._least_pixels:
            return PreparedTile(None, quality[:rows, :cols], usable[:rows, :cols])
        fill_unusable(self._spectra.swapaxes(0, 1), usable, self._manifest.fill_block, self._pool)
        inputs = self._inputs(usable, rgb)
        return PreparedTile(inputs, quality[:rows, :cols], usable[:rows, :cols])

    def _floor(
        self, radiance: Float32[np.ndarray, "band row col"], valid: Bool[np.ndarray, "row col"], first: int = 0
    ) -> tuple[float, Float[np.ndarray, " band"]]:
        """The manifest's share of the tile's level, found as `flame.models.fields` finds it, and each band's level."""
        for step in (self._manifest.level_step, 1):
            down = (np.arange(0, valid.shape[0], step) + first) % radiance.shape[1]
            grid = radiance[:, down, ::step]
            quality = pixel_quality(
                grid.min(axis=0), grid.max(axis=0), valid[::step, ::step], self._manifest.saturation_radiance, 0.0
            )
            seen = grid[:, (quality & UNUSABLE) == 0]
            if seen.size:
                floor = self._manifest.floor_share * max(float(_lower_median(seen.mean(axis=0))), 1e-9)
                return floor, np.maximum(seen.mean(axis=1, dtype=np.float64), floor)
        return self._manifest.floor_share, np.ones(len(radiance))

    def _take_logarithm(
        self,
        radiance: Float32[np.ndarray, "band row col"],
        rows: int,
        cols: int,
        first: int,
        floor: float,
        share: Float32[np.ndarray, " band"],
    ) -> None:
        """One pass over the radiance: least and greatest of each pixel, logarithm of each band times its share."""
        block_rows, side = self._block_rows, self._manifest.tile
        if self._kernels is not None and radiance.strides[2] == 4:
            band_step, row_step = radiance.strides[0] // 4, radiance.strides[1] // 4
            self._kernels.take_logarithm(
                *(self._threads, rows, cols, len(radiance), radiance.ctypes.data, band_step, row_step, first, floor),
                *(share.ctypes.data, self._spectra.ctypes.data, block_rows, side),
                *(self._low.ctypes.data, self._high.ctypes.data),
            )
            return
        chunks = pairwise(sorted({*range(0, rows, gcd(_CHUNK_ROWS, block_rows)), rows - first, rows}))
        work = self._pool.map if self._pool is not None else map
        for _ in work(lambda chunk: self._log_rows(radiance, chunk, cols, first, floor, share), chunks):
            pass

    def _log_rows(
        self,
        radiance: Float32[np.ndarray, "band row col"],
        rows: tuple[int, int],
        cols: int,
        first: int,
        floor: float,
        share: Float32[np.ndarray, " band"],
    ) -> None:
        """`_take_logarithm` for some rows, while they are in cache."""
        part = slice(*rows)
        source = (rows[0] + first) % radiance.shape[1]
        chunk = radiance[:, source : source + rows[1] - rows[0]]
        with np.errstate(invalid="ignore"):
            chunk.min(axis=0, out=self._low[part, :cols])
            chunk.max(axis=0, out=self._high[part, :cols])
            block, row = divmod(rows[0], self._block_rows)
            out = self._spectra[block, :, row : row + rows[1] - rows[0], :cols]
            np.maximum(chunk, np.float32(floor), out=out)
            out *= share[:, None, None]
            np.log(out, out=out)

    @staticmethod
    def _colour_quality(rgb: Float32[np.ndarray, "3 row col"] | None) -> UInt8[np.ndarray, ...]:
        """A model that takes RGB cannot judge pixels without it."""
        if rgb is None:
            return np.array(Quality.INVALID, dtype=np.uint8)
        bad: np.ndarray = ~np.isfinite(rgb).all(axis=0)
        return np.asarray(bad.view(np.uint8) * np.uint8(Quality.NOT_FINITE))

    def _inputs(
        self, usable: Bool[np.ndarray, "tile tile"], rgb: Float32[np.ndarray, "3 row col"] | None
    ) -> dict[str, Float32[np.ndarray, ...]]:
        facts = self._manifest
        inputs: dict[str, np.ndarray] = {"log_radiance": self._spectra, "whitened": self._spectra}
        if "rgb" in facts.inputs and rgb is not None:
            inputs["rgb"] = self._colour(usable, rgb)[None]
        if "valid" in facts.inputs:
            inputs["valid"] = usable[None, None].astype(np.float32)
        if "brightness_median" in facts.inputs:
            inputs["brightness_median"] = _lower_median(self._spectra.mean(axis=1)).reshape(1)
        if facts.background is not None:
            # Threads of BLAS gain nothing on matrices this small, and on a busy computer they wait for each other.
            with self._blas.limit(limits=1, user_api="blas"):
                inputs |= self._against_background(usable, facts.background)
        return {name: inputs[name] for name in facts.inputs}

    def _against_background(
        self, usable: Bool[np.ndarray, "row col"], facts: BackgroundFacts
    ) -> dict[str, Float32[np.ndarray, ...]]:
        """The tile's background; if the model takes whitened spectra, these are made in place."""
        mean, whitening = tile_background(self._spectra, usable, self._spectrum, facts)
        target = whitening @ self._spectrum
        if "whitened" in self._manifest.inputs:
            self._whiten(Whitener(mean, whitening, target))
        made = {"background_mean": mean, "whitening": whitening, "target": target}
        if "unwhitening" in self._manifest.inputs:
            made["unwhitening"] = np.linalg.inv(whitening)
        return {"statistics": self._statistics} | {name: a[None].astype(np.float32) for name, a in made.items()}

    def _whiten(self, whitener: Whitener) -> None:
        side = self._manifest.tile
        if self._kernels is not None:
            layers = self._statistics.ctypes.data if self._statistics.size else None
            whitener.whiten_all(self._kernels, self._threads, self._spectra, layers)
        else:
            parts = [None] * len(self._spectra)
            if self._statistics.size:
                parts = list(self._statistics[0].reshape(4, len(parts), -1, side).swapaxes(0, 1))
            for _ in (map if self._pool is None else self._pool.map)(whitener.whiten, self._spectra, parts):
                pass
        if self._statistics.size:
            brightness = self._statistics[0, STATISTICS.index("brightness")]
            brightness -= _lower_median(brightness)

    def _colour(
        self, usable: Bool[np.ndarray, "tile tile"], rgb: Float32[np.ndarray, "3 row col"]
    ) -> Float32[np.ndarray, "3 tile tile"]:
        """Normalised RGB of the whole tile, unusable pixels filled."""
        facts = self._manifest
        colour = np.zeros((3, *usable.shape), dtype=np.float32)
        within = colour[:, : rgb.shape[1], : rgb.shape[2]]
        if facts.rgb == "fixed":
            np.divide(rgb, np.float32(facts.rgb_scale), out=within)
            fill_unusable(colour, usable, facts.fill_block)
            return colour
        with np.errstate(invalid="ignore"):
            floor, _ = self._floor(rgb, usable[: rgb.shape[1], : rgb.shape[2]])
            np.log(np.maximum(rgb, np.float32(floor)), out=within)
        fill_unusable(colour, usable, facts.fill_block)
        colour -= colour.mean(axis=(1, 2), keepdims=True, dtype=np.float64).astype(np.float32)
        return colour


def fill_unusable(
    field: Float32[np.ndarray, layer * image],
    usable: Bool[np.ndarray, "row col"],
    block: int,
    pool: ThreadPoolExecutor | None = None,
) -> None:
    """Replaces unusable pixels in place by the mean of the usable ones in their block, or in the tile if it has none.

    What is stored under an unusable pixel is never read into a result.

    Args:
        field: What to fill; each layer by itself. A layer may be the image's rows in blocks.
        usable: Pixels to keep.
        block: Side of the blocks.
        pool: Threads to share the layers among.
    """
    if usable.all():
        return
    bad_row, bad_col = np.nonzero(~usable)
    count = _block_sums(usable.astype(np.float32), block)
    share = np.float32(1.0) / np.maximum(count, 1)
    total = max(int(usable.sum()), 1)

    def fill(layer: Float32[np.ndarray, ...]) -> None:
        image = layer.reshape(usable.shape)  # a copy if in blocks
        image[bad_row, bad_col] = 0.0
        sums = _block_sums(image, block)
        mean = np.where(count > 0, sums * share, np.float32(sums.sum(dtype=np.float64) / total))
        image[bad_row, bad_col] = mean[bad_row // block, bad_col // block]
        if not np.may_share_memory(image, layer):
            layer[...] = image.reshape(layer.shape)

    for _ in (map if pool is None else pool.map)(fill, field):
        pass


def _block_sums(layer: Float32[np.ndarray, "row col"], block: int) -> Float32[np.ndarray, "down across"]:
    """Sums over square blocks; those at the lower and right edge may be smaller."""
    rows, cols = layer.shape
    if rows % block or cols % block:
        layer = np.pad(layer, ((0, -rows % block), (0, -cols % block)))
    parts = layer.reshape(layer.shape[0] // block, block, layer.shape[1] // block, block)
    return np.asarray(parts.sum(axis=3).sum(axis=1))


def _lower_median(values: Float32[np.ndarray, ...]) -> Float32[np.ndarray, ""]:
    """The median, of an even number the lower of the two in the middle."""
    middle = (values.size - 1) // 2
    return np.asarray(np.partition(values, middle, axis=None)[middle])
