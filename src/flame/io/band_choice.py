"""Which of a file's bands are read: the methane window in increasing order, and the three nearest red, green, blue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from flame.io.errors import ReaderError
from flame.physics import METHANE_WINDOW_NM, SENSORS, BandError, BandSet
from flame.scene import RGB_WAVELENGTHS_NM

__all__ = ["BandChoice", "choose_bands"]

RGB_TOLERANCE_NM = 15.0
"""How far from 640, 550 and 460 nm a band may lie to stand for red, green or blue."""

GRID_TOLERANCE_NM = 1.0
"""How far a file's centres may lie from a sensor's nominal ones to take its nominal widths."""


@dataclass(frozen=True, eq=False)
class BandChoice:
    """Bands picked from a file.

    Attributes:
        index: Position in the file of each chosen band, in increasing wavelength.
        bands: Their centres and widths.
        rgb: Positions of red, green and blue, if the file has all three.
        notes: What had to be assumed, for `Acquisition.extra`.
    """

    index: Int[np.ndarray, " chosen"]
    bands: BandSet
    rgb: tuple[int, int, int] | None
    notes: dict[str, str]


def choose_bands(
    path: Path,
    centres_nm: Float[np.ndarray, " band"],
    fwhm_nm: Float[np.ndarray, " band"] | None = None,
    good: Bool[np.ndarray, " band"] | None = None,
    window_nm: tuple[float, float] = METHANE_WINDOW_NM,
) -> BandChoice:
    """Picks the bands inside a window.

    Args:
        path: The file, for messages.
        centres_nm: Centres of all its bands, in any order.
        fwhm_nm: Widths of all its bands. If the file has none, those of the sensor whose nominal grid has the chosen
            centres are taken, else the spacing of the bands, and the notes say so.
        good: Bands that the file itself does not call bad.
        window_nm: Which bands to take, by their centres.

    Raises:
        ReaderError: If no band lies inside the window, or the file's bands contradict themselves.
    """
    usable = np.isfinite(centres_nm) if good is None else np.isfinite(centres_nm) & good
    inside = np.flatnonzero(usable & (centres_nm >= window_nm[0]) & (centres_nm <= window_nm[1]))
    if inside.size == 0:
        raise ReaderError(
            path,
            f"no usable band between {window_nm[0]:g} and {window_nm[1]:g} nm; its {centres_nm.size} bands reach from "
            f"{np.nanmin(centres_nm):g} to {np.nanmax(centres_nm):g} nm",
            "give a scene that covers methane's absorption in the short-wave infrared",
        )
    index = inside[np.argsort(centres_nm[inside], kind="stable")]
    chosen_nm = centres_nm[index]
    width_nm, notes = _assumed_widths(chosen_nm) if fwhm_nm is None else (fwhm_nm[index], dict[str, str]())
    try:
        bands = BandSet(chosen_nm, width_nm)
    except BandError as failure:
        raise ReaderError(path, str(failure), "correct the wavelengths in the file") from failure
    return BandChoice(index, bands, _rgb(centres_nm, usable), notes)


def _assumed_widths(centres_nm: Float[np.ndarray, " chosen"]) -> tuple[Float[np.ndarray, " chosen"], dict[str, str]]:
    for known in SENSORS.values():
        grid = known.bands
        nearest = np.array([grid.nearest(centre) for centre in centres_nm])
        if (np.abs(grid.centres_nm[nearest] - centres_nm) <= GRID_TOLERANCE_NM).all():
            return grid.fwhm_nm[nearest], {"fwhm": f"nominal of {known.name}, the file has none"}
    width = np.gradient(centres_nm) if centres_nm.size > 1 else np.full(1, 10.0)
    return np.maximum(width, 1e-3), {"fwhm": "band spacing, the file has none"}


def _rgb(centres_nm: Float[np.ndarray, " band"], usable: Bool[np.ndarray, " band"]) -> tuple[int, int, int] | None:
    distance = np.abs(np.where(usable, centres_nm, np.inf)[None, :] - np.array(RGB_WAVELENGTHS_NM)[:, None])
    red, green, blue = (int(at) for at in distance.argmin(axis=1))
    near = distance.min(axis=1) <= RGB_TOLERANCE_NM
    return (red, green, blue) if bool(near.all()) else None
