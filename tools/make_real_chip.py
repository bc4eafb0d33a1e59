"""Make a chip of real land in a sensor's bands from an AVIRIS scene in a MATLAB file, such as the ABU scenes.

The Airport-Beach-Urban scenes (Kang et al. 2017, IEEE TGRS 55, 5600-5611; look for "ABU data set", Xudong Kang) are
100 x 100 or 150 x 150 pixels of AVIRIS radiance, most in 188 to 207 bands of 10 nm: `data` (row, column, band), raw
numbers, and `map`, the anomalies, which is not used here. A file does not say which of AVIRIS's 224 bands were kept, so
their centres must be given: a text file with one number of nanometres for each band. AVIRIS stores radiance in
µW cm-2 nm-1 sr-1 times 300 up to 1000 nm, times 600 up to 1800 nm, and times 1200 beyond.

Spectra are interpolated to the sensor's finer bands, which smooths their noise: add sensor noise when plumes are
injected, as `flame simulate --background` does unless told not to.

    python tools/make_real_chip.py abu-airport-2.mat airport_2.npz --centres centres_nm.txt [--sensor aviris-ng]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.io import loadmat

from flame.physics import sensor
from flame.scene import RGB_WAVELENGTHS_NM

GAINS = ((0.0, 300.0), (1000.0, 600.0), (1800.0, 1200.0))
"""From this wavelength on (nm), by how much AVIRIS's stored numbers exceed radiance in µW cm-2 nm-1 sr-1."""

INFRARED_NM = 2000.0


def read_mat(path: Path, centre_nm: np.ndarray) -> np.ndarray:
    """Radiance (band, row, col) in µW cm-2 nm-1 sr-1 of a MATLAB file's `data`.

    Raises:
        SystemExit: If the file holds no such cube, or as many bands as centres were not found in it.
    """
    try:
        stored = loadmat(path, variable_names=["data"])
    except (NotImplementedError, ValueError) as failure:
        raise SystemExit(
            f"{path}: not a MATLAB file of version 7.2 or older ({failure}); save it again as -v7"
        ) from None
    if "data" not in stored or stored["data"].ndim != 3:
        raise SystemExit(f"{path}: holds no cube named 'data' (row, column, band)")
    cube = np.moveaxis(np.asarray(stored["data"], dtype=np.float64), -1, 0)
    if len(cube) != centre_nm.size:
        raise SystemExit(f"{path}: {len(cube)} bands, but {centre_nm.size} centres were given; give one for each band")
    starts, gains = (np.array(column) for column in zip(*GAINS, strict=True))
    gain = gains[np.searchsorted(starts, centre_nm, side="right") - 1]
    return (cube / gain[:, None, None]).astype(np.float32)


def chip_arrays(centre_nm: np.ndarray, radiance: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """The arrays of a chip: the sensor's methane bands, and the scene's own nearest to red, green and blue.

    Args:
        centre_nm: Band centres, increasing where the methane bands are.
        radiance: Radiance (band, row, col).
        name: The sensor.
    """
    bands = sensor(name).bands.methane()
    infrared = centre_nm > INFRARED_NM
    fine = PchipInterpolator(centre_nm[infrared], radiance[infrared], axis=0, extrapolate=False)(bands.centres_nm)
    if not np.isfinite(fine).all():
        raise SystemExit(f"the scene's bands do not span {bands.describe()}")
    colours = [int(np.abs(centre_nm - nm).argmin()) for nm in RGB_WAVELENGTHS_NM]
    return {
        "radiance": np.concatenate([radiance[colours], fine]).astype(np.float32),
        "wavelength_nm": np.concatenate([centre_nm[colours], bands.centres_nm]),
        "fwhm_nm": np.concatenate([np.full(len(colours), 10.0), bands.fwhm_nm]),
    }


def main() -> None:
    """Write the chip to the file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=Path, help="MATLAB file with a cube named 'data'")
    parser.add_argument("out", type=Path)
    parser.add_argument("--centres", type=Path, required=True, help="text file: one band centre in nm for each band")
    parser.add_argument("--sensor", default="aviris-ng")
    given = parser.parse_args()
    centre_nm = np.loadtxt(given.centres, dtype=np.float64, ndmin=1)
    np.savez_compressed(given.out, **chip_arrays(centre_nm, read_mat(given.scene, centre_nm), given.sensor))


if __name__ == "__main__":
    main()
