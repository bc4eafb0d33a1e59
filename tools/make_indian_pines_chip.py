"""Make a chip of real land in a sensor's bands from the AVIRIS cube of Indian Pines in the PyPI package `tensorly`.

The cube (Baumgardner et al. 2015, CC BY 3.0) holds 145 x 145 pixels of fields and woods in 200 bands of 10 nm, as
(radiance in µW cm-2 nm-1 sr-1) x 500 + 1000. Spectra are interpolated to the sensor's finer bands, which smooths
their noise: add sensor noise when plumes are injected, as `flame simulate --background` does unless told not to.

    python tools/make_indian_pines_chip.py indian_pines.npz [--sensor aviris-ng]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from tensorly.datasets import load_indian_pines

from make_real_chip import chip_arrays

FIRST_MISPLACED = 103
MISPRINTS_NM = {2260.22: 2212.22, 2270.15: 2222.15}


def read_cube() -> tuple[np.ndarray, np.ndarray]:
    """Band centres (nm) and radiance (band, row, col).

    The package's list of centres has two misprints, and from index 103 on names the centre of the band after.
    """
    cube = load_indian_pines()
    listed = [MISPRINTS_NM.get(nm, nm) for nm in cube["ticks"][1]]
    centre_nm = np.array(listed, dtype=np.float64)
    centre_nm[FIRST_MISPLACED + 1 :] = listed[FIRST_MISPLACED:-1]
    radiance = (np.moveaxis(np.asarray(cube["tensor"], dtype=np.float32), -1, 0) - 1000.0) / 500.0
    return centre_nm, radiance


def make_chip(name: str) -> dict[str, np.ndarray]:
    """The arrays of a chip in a sensor's bands."""
    return chip_arrays(*read_cube(), name)


def main() -> None:
    """Write the chip to the file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--sensor", default="aviris-ng")
    given = parser.parse_args()
    np.savez_compressed(given.out, **make_chip(given.sensor))


if __name__ == "__main__":
    main()
