"""Band positions of an imaging spectrometer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from flame.errors import FlameError

__all__ = ["METHANE_WINDOW_NM", "BandError", "BandMismatchError", "BandSet"]

METHANE_WINDOW_NM = (2122.0, 2484.0)
"""Centres of the bands used for methane: the paper's 72 bands of AVIRIS-NG, 2124 to 2480 nm.

The paper writes 2122-2488 nm for what these 72 bands cover; a band centred at 2485 nm would be a 73rd.
"""


class BandError(FlameError):
    """A band description that cannot be right."""


class BandMismatchError(BandError):
    """Two band sets that should agree and do not.

    Attributes:
        expected: What was needed.
        got: What was there.
        where: The file or folder that has the wrong bands.
        advice: What to do about it.
    """

    def __init__(
        self,
        expected: BandSet,
        got: BandSet,
        where: str = "the scene",
        advice: str = "Give a scene of that sensor, or a model made for these bands.",
    ) -> None:
        self.expected, self.got, self.where, self.advice = expected, got, where, advice
        super().__init__(
            f"{where} has bands that do not fit.\n"
            f"  expected {expected.describe()}\n"
            f"  got      {got.describe()}\n"
            f"{advice}"
        )

    def __reduce__(self) -> tuple[type[BandMismatchError], tuple[BandSet, BandSet, str, str]]:
        # Errors come back from worker processes pickled; the default would pass one argument of four.
        return type(self), (self.expected, self.got, self.where, self.advice)


@dataclass(frozen=True, eq=False)
class BandSet:
    """Centres and widths of spectral bands, in nm, centres strictly increasing.

    Attributes:
        centres_nm: Band centres.
        fwhm_nm: Full width at half maximum of each band's (Gaussian) response.
    """

    centres_nm: Float[np.ndarray, " _band"]
    fwhm_nm: Float[np.ndarray, " _band"]

    def __post_init__(self) -> None:
        centres = np.asarray(self.centres_nm, dtype=np.float64)
        fwhm = np.asarray(self.fwhm_nm, dtype=np.float64)
        if centres.ndim != 1 or centres.size == 0:
            raise BandError(f"band centres must be a non-empty list of wavelengths, got shape {centres.shape}")
        if fwhm.shape != centres.shape:
            raise BandError(f"expected one FWHM for each of {centres.size} band centres, got {fwhm.size}")
        if not (np.isfinite(centres).all() and np.isfinite(fwhm).all()):
            raise BandError("band centres and FWHM must be finite, got NaN or infinity")
        if (fwhm <= 0).any():
            raise BandError(f"every FWHM must be positive, got {fwhm.min():g} nm")
        if centres[0] < 100 or centres[-1] > 100_000:
            raise BandError(
                f"band centres must be in nanometres, got {centres[0]:g} to {centres[-1]:g}; "
                "wavelengths in micrometres must be multiplied by 1000"
            )
        steps = np.diff(centres)
        if (steps <= 0).any():
            at = int(np.argmax(steps <= 0))
            raise BandError(
                f"band centres must increase, got {centres[at]:g} nm followed by {centres[at + 1]:g} nm (bands "
                f"{at} and {at + 1}); sort the bands and their radiance together"
            )
        centres.setflags(write=False)
        fwhm.setflags(write=False)
        object.__setattr__(self, "centres_nm", centres)
        object.__setattr__(self, "fwhm_nm", fwhm)

    def __len__(self) -> int:
        return int(self.centres_nm.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BandSet) and self.matches(other, tolerance_nm=0.0)

    def __hash__(self) -> int:
        return hash((self.centres_nm.tobytes(), self.fwhm_nm.tobytes()))

    def matches(self, other: BandSet, tolerance_nm: float = 1.0) -> bool:
        """Whether both sets have the same number of bands at the same centres and widths.

        Args:
            other: The set to compare with.
            tolerance_nm: Largest difference of any centre or width that still counts as equal, in nm.
        """
        return (
            len(self) == len(other)
            and bool((np.abs(self.centres_nm - other.centres_nm) <= tolerance_nm).all())
            and bool((np.abs(self.fwhm_nm - other.fwhm_nm) <= tolerance_nm).all())
        )

    def within(self, low_nm: float, high_nm: float) -> Bool[np.ndarray, " band"]:
        """Mask of the bands whose centre lies in [low_nm, high_nm]."""
        return (self.centres_nm >= low_nm) & (self.centres_nm <= high_nm)

    def select(self, which: Bool[np.ndarray, " band"]) -> BandSet:
        """The bands marked in `which`, as a set of their own."""
        return BandSet(self.centres_nm[which], self.fwhm_nm[which])

    def nearest(self, wavelength_nm: float) -> int:
        """Index of the band whose centre is nearest to a wavelength."""
        return int(np.argmin(np.abs(self.centres_nm - wavelength_nm)))

    def methane(self) -> BandSet:
        """The bands inside the methane window."""
        return self.select(self.within(*METHANE_WINDOW_NM))

    def describe(self) -> str:
        """One line for messages: how many bands, from where to where."""
        listed = ", ".join(f"{c:.1f}" for c in self.centres_nm[:4])
        more = ", ..." if len(self) > 4 else ""
        return (
            f"{len(self)} bands {self.centres_nm[0]:.1f}-{self.centres_nm[-1]:.1f} nm, FWHM "
            f"{self.fwhm_nm.min():.1f}-{self.fwhm_nm.max():.1f} nm ({listed}{more})"
        )
