"""From a tile of radiance to a prepared tile: validity, logarithm, filling, background, whitening, fields, colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32
from threadpoolctl import ThreadpoolController

from flame.kernels import Kernels, load_kernels, takes
from flame.physics import BandSet, unit_absorption
from flame.prepare.background import tile_background
from flame.prepare.colour import colour_quality, normalised_colour
from flame.prepare.compiled import KernelSteps
from flame.prepare.fields import LAYERS, TileView
from flame.prepare.level import find_floor, lower_median
from flame.prepare.quality import UNUSABLE, Quality, pixel_quality
from flame.prepare.reference import NumpySteps, Spectra, Steps
from flame.prepare.settings import PrepareSettings
from flame.prepare.tile import INPUTS, OF_BACKGROUND, SPECTRA, PreparedTile
from flame.records import SettingsError

__all__ = ["TilePreparer"]


class TilePreparer:
    """Prepares tiles of one size, reusing its buffers: one tile of spectra. Not to be shared between threads.

    Args:
        settings: How.
        inputs: What, names among `INPUTS`.
        bands: Bands of the radiance.
        shape: Rows and columns of the tile.
        absorption: Unit absorption spectrum of the bands; `unit_absorption` unless given.
        threads: Threads for the passes over the spectra.
        block_rows: Rows of the blocks in which spectra are laid out; all of them in one block unless given.
        kernels: Compiled kernels, or None for NumPy; those of this processor unless given.

    Raises:
        SettingsError: If an input is not known, or the inputs do not have exactly one form of spectra.
    """

    def __init__(
        self,
        settings: PrepareSettings,
        inputs: Sequence[str],
        bands: BandSet,
        shape: tuple[int, int],
        absorption: Float[np.ndarray, " band"] | None = None,
        threads: int = 1,
        block_rows: int | None = None,
        kernels: Kernels | str | None = "auto",
    ) -> None:
        unknown = [name for name in inputs if name not in INPUTS]
        if unknown or sum(name in inputs for name in SPECTRA) != 1:
            raise SettingsError(f"inputs {list(inputs)} must be among {list(INPUTS)}, with one of {list(SPECTRA)}")
        self.settings, self.inputs, self.bands, self.shape = settings, tuple(inputs), bands, shape
        self._absorption = unit_absorption(bands) if absorption is None else absorption.astype(np.float64)
        self._block_rows = block_rows or shape[0]
        chosen = load_kernels() if isinstance(kernels, str) else kernels
        fast = chosen is not None and takes(len(bands), shape[1])
        self._steps: Steps = KernelSteps(chosen, threads) if fast and chosen is not None else NumpySteps(threads)
        self._spectra: Spectra | None = None
        self._low, self._high = (np.empty(shape, dtype=np.float32) for _ in range(2))
        self._planes = np.zeros((len(LAYERS), *shape), "f4") if "pixel_fields" in inputs else None
        self._fields = np.zeros((1, len(settings.pixel_fields), *shape), "f4")
        self._blas = ThreadpoolController()

    def new_spectra(self) -> Spectra:
        """Memory for the spectra of a tile."""
        blocks = self.shape[0] // self._block_rows
        return np.empty((blocks, len(self.bands), self._block_rows, self.shape[1]), dtype=np.float32)

    def prepare(
        self,
        radiance: Float32[np.ndarray, "band row col"],
        valid: Bool[np.ndarray, "row col"],
        rgb: Float32[np.ndarray, "3 row col"] | None,
        first: int = 0,
        *,
        spectra: Spectra | None = None,
        always: bool = False,
    ) -> PreparedTile:
        """A tile at most as large as those it prepares; what is missing below and right counts as unusable.

        Args:
            radiance: The tile's radiance; a ring of rows if `first` is not 0.
            valid: Pixels that may be used.
            rgb: The tile's colours, if known.
            first: Where in `radiance` the tile's first row stands; after the last row comes row 0.
            spectra: Memory from `new_spectra` to put its spectra into, instead of that used for every tile.
            always: Prepare even a tile with too few usable pixels.
        """
        if spectra is None:
            self._spectra = spectra = self.new_spectra() if self._spectra is None else self._spectra
        rows, cols = valid.shape
        pixels = self.settings.pixels
        floor, level = find_floor(radiance, valid, pixels, first)
        # Spectra to be whitened are divided by each band's level first. That cancels with their mean, and float32 has
        # more digits for a logarithm near zero; whitening magnifies its rounding a thousand times.
        share = 1.0 / level if "whitened" in self.inputs else np.ones(len(level))
        self._steps.take_logarithm(radiance, first, floor, share.astype(np.float32), spectra, self._low, self._high)
        quality = np.full(self.shape, Quality.INVALID, dtype=np.uint8)
        low, high = self._low[:rows, :cols], self._high[:rows, :cols]
        quality[:rows, :cols] = pixel_quality(low, high, valid, pixels.saturation_radiance, floor)
        if "rgb" in self.inputs:
            quality[:rows, :cols] |= colour_quality(rgb)
        usable = (quality & UNUSABLE) == 0
        made = PreparedTile(self.bands, None, quality[:rows, :cols], usable[:rows, :cols])
        if int(usable.sum()) < pixels.least_pixels_per_band * len(self.bands) and not always:
            return made
        self._steps.fill(spectra, usable, pixels.fill_block)
        inputs: dict[str, np.ndarray] = {"log_radiance": spectra, "whitened": spectra}
        if "rgb" in self.inputs:
            colours = np.zeros((3, rows, cols), dtype=np.float32) if rgb is None else rgb
            inputs["rgb"] = normalised_colour(colours, usable, self.settings)[None]
        if set(self.inputs) & set(OF_BACKGROUND):

            def whole_radiance() -> Float32[np.ndarray, "band row col"]:
                whole = np.zeros((len(radiance), *self.shape), dtype=np.float32)
                whole[:, :rows, :cols] = np.roll(radiance, -first, axis=1)
                return whole

            # Threads of BLAS gain nothing on matrices this small, and on a busy computer they wait for each other.
            with self._blas.limit(limits=1, user_api="blas"):
                inputs |= self._against_background(spectra, usable, np.log(share), whole_radiance)
        return PreparedTile(self.bands, {name: inputs[name] for name in self.inputs}, made.quality, made.usable)

    def _against_background(
        self,
        spectra: Spectra,
        usable: Bool[np.ndarray, "row col"],
        offset: Float[np.ndarray, " band"],
        radiance: Callable[[], Float32[np.ndarray, "band row col"]],
    ) -> dict[str, Float32[np.ndarray, ...]]:
        """The tile's background and what is found against it; whitened spectra are made in place.

        Args:
            spectra: Log-radiance without holes, each band plus its offset.
            usable: Usable pixels.
            offset: What has been added to each band.
            radiance: Makes the tile's radiance.
        """
        mean, whitening = tile_background(spectra, usable, self._absorption, self.settings.background)
        target = whitening @ self._absorption
        if "whitened" in self.inputs or self._planes is not None:
            kept = spectra if "whitened" in self.inputs else spectra.copy()
            unit = target / max(float(np.linalg.norm(target)), self.settings.fields.tiny)
            self._steps.whiten(kept, mean, whitening, unit, self._planes)
        made = {"background_mean": mean - offset, "whitening": whitening, "target": target}
        if "unwhitening" in self.inputs:
            made["unwhitening"] = np.linalg.inv(whitening)
        inputs = {name: array[None].astype(np.float32) for name, array in made.items()}
        if self._planes is not None:
            brightness = self._planes[LAYERS.index("brightness")]
            brightness -= lower_median(brightness)
            settings = self.settings.fields
            view = TileView(self.bands, self._absorption, usable, self._planes, target, settings, radiance)
            self._steps.find_fields(view, self.settings.pixel_fields, self._fields[0])
            inputs["pixel_fields"] = self._fields
        return inputs
