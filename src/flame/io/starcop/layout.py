"""Names inside a STARCOP tile folder, and the band centres hidden in them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from flame.physics import BandSet, sensor

__all__ = [
    "ENHANCEMENT",
    "LABEL",
    "MAG1C",
    "RGB_NM",
    "SENSOR",
    "TRUTH",
    "VALID_MASK",
    "band_file",
    "band_files",
    "bands_from_names",
]

LABEL = "labelbinary.tif"
MAG1C = "mag1c.tif"
VALID_MASK = "valid_mask.tif"
ENHANCEMENT = "enhancement_ppm_m.tif"
"""Simulated tiles only: the true enhancement."""
TRUTH = "truth.json"
"""Tiles written by FLAME only: exact bands, sensor, emission rate, sources, wind."""

RGB_NM = (640, 550, 460)
SENSOR = "aviris-ng"

_BAND_FILE = re.compile(r"TOA_AVIRIS_(\d+)nm\.tif")


def band_file(wavelength_nm: int) -> str:
    """File name of the band at a whole number of nm."""
    return f"TOA_AVIRIS_{wavelength_nm}nm.tif"


def band_files(folder: Path) -> dict[int, Path]:
    """The band files of a tile folder by the wavelength in their name, in nm and in order."""
    found = {int(match[1]): path for path in folder.iterdir() if (match := _BAND_FILE.fullmatch(path.name))}
    return dict(sorted(found.items()))


def bands_from_names(names_nm: Int[np.ndarray, " band"]) -> BandSet:
    """Centres and widths of bands known only by file names.

    The names are the sensor's centres cut to whole nm. AVIRIS-NG's centres are evenly spaced, so few grids give all
    names when cut: the one in the middle of those is taken. For 72 bands of any flight it is right to 0.2 nm, for
    STARCOP's (where 2269 is followed by 2275) to 0.01 nm. Were the names themselves taken, methane's lines would sit
    up to 1 nm beside their bands. Widths are nominal.
    """
    nominal = sensor(SENSOR).bands
    step_nm = float(np.diff(nominal.centres_nm).mean())
    index = np.round((names_nm - names_nm[0]) / step_nm)
    low = float((names_nm - index * step_nm).max())
    high = float((names_nm + 1 - index * step_nm).min())
    centres: Float[np.ndarray, " band"] = (low + high) / 2 + index * step_nm if low < high else names_nm + 0.5
    return BandSet(centres, np.array([nominal.fwhm_nm[nominal.nearest(centre)] for centre in centres]))
