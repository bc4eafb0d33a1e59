"""From a tile of radiance to the inputs of a model's graph, in NumPy: validity, logarithm, fill, background.

These are the model's own first steps, done outside its graph where they are cheap and where bad pixels can be stopped.
Tests hold them equal to the torch model's.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt8
from threadpoolctl import ThreadpoolController

from flame.onboard.manifest import BackgroundFacts, Manifest
from flame.onboard.quality import UNUSABLE, Quality, pixel_quality

__all__ = ["PreparedTile", "TilePreparer", "fill_unusable", "tile_background"]

_CHUNK_ROWS = 16
_LEVEL_STEP = 8


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
    """Prepares tiles of one model, reusing its buffers; memory stays at one tile of log-radiance.

    Args:
        manifest: The model's facts.
        threads: Threads for the pass over the radiance.
    """

    def __init__(self, manifest: Manifest, threads: int = 1) -> None:
        side, bands = manifest.tile, len(manifest.band_centres_nm)
        self._manifest = manifest
        self._spectrum = np.array(manifest.absorption)
        self._log = np.empty((1, bands, side, side), dtype=np.float32)
        self._low = np.empty((side, side), dtype=np.float32)
        self._high = np.empty((side, side), dtype=np.float32)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
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
        starts = [*range(0, rows - first, _CHUNK_ROWS), *range(rows - first, rows, _CHUNK_ROWS)]
        chunks = list(pairwise([*starts, rows]))
        floor = self._floor(radiance, valid, first)
        work = self._pool.map if self._pool is not None else map
        for _ in work(lambda chunk: self._log_rows(radiance, chunk, cols, first, floor), chunks):
            pass
        quality = np.full((side, side), Quality.INVALID, dtype=np.uint8)
        low, high = self._low[:rows, :cols], self._high[:rows, :cols]
        quality[:rows, :cols] = pixel_quality(low, high, valid, self._manifest.saturation_radiance, floor)
        if "rgb" in self._manifest.inputs:
            quality[:rows, :cols] |= self._colour_quality(rgb)
        usable = (quality & UNUSABLE) == 0
        if int(usable.sum()) < self._least_pixels:
            return PreparedTile(None, quality[:rows, :cols], usable[:rows, :cols])
        fill_unusable(self._log[0], usable, self._manifest.fill_block, self._pool)
        inputs = self._inputs(usable, rgb)
        return PreparedTile(inputs, quality[:rows, :cols], usable[:rows, :cols])

    def _floor(
        self, radiance: Float32[np.ndarray, "band row col"], valid: Bool[np.ndarray, "row col"], first: int = 0
    ) -> float:
        """The manifest's share of the tile's level, which is found as `flame.models.fields` finds it."""
        for step in (_LEVEL_STEP, 1):
            down = (np.arange(0, valid.shape[0], step) + first) % radiance.shape[1]
            grid = radiance[:, down, ::step]
            quality = pixel_quality(
                grid.min(axis=0), grid.max(axis=0), valid[::step, ::step], self._manifest.saturation_radiance, 0.0
            )
            mean = grid[:, (quality & UNUSABLE) == 0].mean(axis=0)
            if mean.size:
                middle = (mean.size - 1) // 2  # the lower median
                return self._manifest.floor_share * max(float(np.partition(mean, middle)[middle]), 1e-9)
        return self._manifest.floor_share

    def _log_rows(
        self, radiance: Float32[np.ndarray, "band row col"], rows: tuple[int, int], cols: int, first: int, floor: float
    ) -> None:
        """One pass over some rows while they are in cache: least, greatest, logarithm."""
        part = slice(*rows)
        source = (rows[0] + first) % radiance.shape[1]
        chunk = radiance[:, source : source + rows[1] - rows[0]]
        with np.errstate(invalid="ignore"):
            chunk.min(axis=0, out=self._low[part, :cols])
            chunk.max(axis=0, out=self._high[part, :cols])
            out = self._log[0, :, part, :cols]
            np.maximum(chunk, np.float32(floor), out=out)
            np.log(out, out=out)

    @staticmethod
    def _colour_quality(rgb: Float32[np.ndarray, "3 row col"] | None) -> UInt8[np.ndarray, ...]:
        """A model that takes RGB cannot judge pixels without it."""
        if rgb is None:
            return np.array(Quality.INVALID, dtype=np.uint8)
        return np.where(np.isfinite(rgb).all(axis=0), 0, Quality.NOT_FINITE).astype(np.uint8)

    def _inputs(
        self, usable: Bool[np.ndarray, "row col"], rgb: Float32[np.ndarray, "3 row col"] | None
    ) -> dict[str, Float32[np.ndarray, ...]]:
        facts = self._manifest
        inputs: dict[str, np.ndarray] = {"log_radiance": self._log}
        if "rgb" in facts.inputs and rgb is not None:
            inputs["rgb"] = self._colour(usable, rgb)[None]
        if "valid" in facts.inputs:
            inputs["valid"] = usable[None, None].astype(np.float32)
        if "brightness_median" in facts.inputs:
            brightness = self._log[0].mean(axis=0).ravel()
            middle = (brightness.size - 1) // 2  # the lower median
            inputs["brightness_median"] = np.partition(brightness, middle)[middle].reshape(1)
        if facts.background is not None:
            # Threads of BLAS gain nothing on matrices this small, and on a busy computer they wait for each other.
            with self._blas.limit(limits=1, user_api="blas"):
                mean, whitening = tile_background(self._log[0], usable, self._spectrum, facts.background)
            inputs["background_mean"] = mean[None].astype(np.float32)
            inputs["whitening"] = whitening[None].astype(np.float32)
        return {name: inputs[name] for name in facts.inputs}

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
            np.log(np.maximum(rgb, np.float32(self._floor(rgb, usable[: rgb.shape[1], : rgb.shape[2]]))), out=within)
        fill_unusable(colour, usable, facts.fill_block)
        colour -= colour.mean(axis=(1, 2), keepdims=True, dtype=np.float64).astype(np.float32)
        return colour


def fill_unusable(
    field: Float32[np.ndarray, "layer row col"],
    usable: Bool[np.ndarray, "row col"],
    block: int,
    pool: ThreadPoolExecutor | None = None,
) -> None:
    """Replaces unusable pixels in place by the mean of the usable ones in their block, or in the tile if it has none.

    What is stored under an unusable pixel is never read into a result.

    Args:
        field: What to fill; each layer by itself.
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

    def fill(layer: Float32[np.ndarray, "row col"]) -> None:
        layer[bad_row, bad_col] = 0.0
        sums = _block_sums(layer, block)
        mean = np.where(count > 0, sums * share, np.float32(sums.sum(dtype=np.float64) / total))
        layer[bad_row, bad_col] = mean[bad_row // block, bad_col // block]

    for _ in (map if pool is None else pool.map)(fill, field):
        pass


def _block_sums(layer: Float32[np.ndarray, "row col"], block: int) -> Float32[np.ndarray, "down across"]:
    """Sums over square blocks; those at the lower and right edge may be smaller."""
    rows, cols = layer.shape
    if rows % block or cols % block:
        layer = np.pad(layer, ((0, -rows % block), (0, -cols % block)))
    parts = layer.reshape(layer.shape[0] // block, block, layer.shape[1] // block, block)
    return np.asarray(parts.sum(axis=3).sum(axis=1))


def tile_background(
    log: Float32[np.ndarray, "band row col"],
    usable: Bool[np.ndarray, "row col"],
    unit_spectrum: Float[np.ndarray, " band"],
    facts: BackgroundFacts,
) -> tuple[Float[np.ndarray, " band"], Float[np.ndarray, "band band"]]:
    """Mean log-spectrum of a tile and `C^-1/2`, from a regular sample of its usable pixels, in float64."""
    rows, cols = usable.shape
    step = max(1, int((rows * cols / facts.samples) ** 0.5))
    seen = usable[::step, ::step]
    if step > 1 and int(seen.sum()) < 2 * log.shape[0]:
        step, seen = 1, usable
    sample = log[:, ::step, ::step][:, seen].astype(np.float64)
    weight = np.ones(sample.shape[1])
    mean, whitening = _weighted_whitening(sample, weight, facts.floor)
    for _ in range(facts.passes - 1):
        white = whitening @ (sample - mean[:, None])
        target = whitening @ unit_spectrum
        response = target @ white / max(float(np.linalg.norm(target)), 1e-12)
        near = np.minimum(1.0 / np.maximum(np.square(white).mean(axis=0), 1e-12), 1.0)
        weight = near * (response < facts.plume_sigma)
        mean, whitening = _weighted_whitening(sample, weight, facts.floor)
    return mean, whitening


def _weighted_whitening(
    sample: Float[np.ndarray, "band pixel"], weight: Float[np.ndarray, " pixel"], floor: float
) -> tuple[Float[np.ndarray, " band"], Float[np.ndarray, "band band"]]:
    """Weighted mean and inverse root of the covariance, its eigenvalues raised by what so few samples leave unknown."""
    total = max(float(weight.sum()), 1.0)
    mean = sample @ weight / total
    centred = sample - mean[:, None]
    covariance = (centred * weight) @ centred.T / total
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)
    noise = values[(values.size - 1) // 2]  # the lower median
    raised = values + noise * (values.size / total) + floor
    return mean, (vectors / np.sqrt(raised)) @ vectors.T
