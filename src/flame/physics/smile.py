"""Smile: a push-broom spectrometer sees slightly other wavelengths in each of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from flame.physics.bands import BandError, BandSet

__all__ = ["SMILE_MATTERS_NM", "ColumnBands"]

SMILE_MATTERS_NM = 0.5
"""Columns whose centres differ by less are treated alike: below it, the bias that is left is smaller than what the
narrower groups lose by estimating their background from fewer pixels (tests/filters/test_smile.py)."""


@dataclass(frozen=True, eq=False)
class ColumnBands:
    """The bands of each column.

    Attributes:
        centres_nm: Centre of each band in each column.
        fwhm_nm: Width of each band in each column.
    """

    centres_nm: Float[np.ndarray, "band col"]
    fwhm_nm: Float[np.ndarray, "band col"]

    def __post_init__(self) -> None:
        centres = np.asarray(self.centres_nm, dtype=np.float64)
        fwhm = np.asarray(self.fwhm_nm, dtype=np.float64)
        if centres.ndim != 2 or centres.shape != fwhm.shape or 0 in centres.shape:
            raise BandError(
                f"smile needs centres and widths for each band and column, got {centres.shape}, {fwhm.shape}"
            )
        if not (np.isfinite(centres).all() and np.isfinite(fwhm).all() and (fwhm > 0).all()):
            raise BandError("smile must be finite and widths positive")
        object.__setattr__(self, "centres_nm", centres)
        object.__setattr__(self, "fwhm_nm", fwhm)

    @property
    def columns(self) -> int:
        """How many columns."""
        return int(self.centres_nm.shape[1])

    @property
    def spread_nm(self) -> float:
        """Largest difference of one band's centre between two columns."""
        return float(np.ptp(self.centres_nm, axis=1).max())

    def mean(self) -> BandSet:
        """The bands of all columns together."""
        return BandSet(self.centres_nm.mean(axis=1), self.fwhm_nm.mean(axis=1))

    def window(self, cols: slice) -> ColumnBands:
        """Some of the columns."""
        return ColumnBands(self.centres_nm[:, cols], self.fwhm_nm[:, cols])

    def groups(self, tolerance_nm: float = SMILE_MATTERS_NM, least_columns: int = 1) -> Iterator[tuple[slice, BandSet]]:
        """Neighbouring columns whose centres agree, each with the mean of its bands; all columns, once, in order.

        Args:
            tolerance_nm: Largest difference of any band's centre within a group, unless that needs too narrow groups.
            least_columns: Columns a group has at least; a narrower rest joins the group before it.
        """
        starts, first = [0], self.centres_nm[:, 0]
        low, high = first.copy(), first.copy()
        for col in range(1, self.columns):
            here = self.centres_nm[:, col]
            np.minimum(low, here, out=low)
            np.maximum(high, here, out=high)
            if (high - low).max() > tolerance_nm and col - starts[-1] >= least_columns:
                starts.append(col)
                low, high = here.copy(), here.copy()
        if len(starts) > 1 and self.columns - starts[-1] < least_columns:
            starts.pop()
        for start, stop in zip(starts, [*starts[1:], self.columns], strict=True):
            part = slice(start, stop)
            yield part, self.window(part).mean()
