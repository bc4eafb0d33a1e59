"""Derive the packaged methane table from the MODTRAN look-up table inside the PyPI package `mag1c` (BSD-3).

The source holds at-sensor radiance at 31,800 wavelengths (1400-2500 nm) for seven methane enhancements. Radiance is
averaged over cells of 0.05 nm, far below any band width, and kept as the zero-enhancement radiance and the absorbance
relative to it.

    python tools/make_methane_table.py src/flame/physics/data/methane.npz
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

import numpy as np

ENHANCEMENTS_PPM_M = np.array([0, 500, 1000, 2000, 4000, 8000, 16000], dtype=np.float64)
CELL_NM = 0.05


def read_lookup_table() -> tuple[np.ndarray, np.ndarray]:
    """Wavelengths (nm) and radiance (enhancement, wavelength) of mag1c's table."""
    folder = files("mag1c")
    header = (folder / "ch4.hdr").read_text()
    listed = header.split("wavelength = {", 1)[1].split("}", 1)[0]
    wavelength_nm = np.array([float(w) for w in listed.split(",")])
    values = np.frombuffer((folder / "ch4.lut").read_bytes(), dtype="<f8").reshape(wavelength_nm.size, 7)
    return wavelength_nm, values.T


def derive_table() -> dict[str, np.ndarray]:
    """The arrays that go into the package."""
    wavelength_nm, radiance = read_lookup_table()
    first = np.floor(wavelength_nm[0] / CELL_NM) * CELL_NM
    cell = np.floor((wavelength_nm - first) / CELL_NM + 1e-6).astype(int)
    samples = np.bincount(cell)
    keep = samples > 0
    totals = np.stack([np.bincount(cell, weights=row) for row in radiance])
    mean = totals[:, keep] / samples[keep]
    centre_nm = np.bincount(cell, weights=wavelength_nm)[keep] / samples[keep]
    clear = mean[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        transmittance = np.where(clear > 0, mean[1:] / clear, 1.0)
    absorbance = -np.log(transmittance)
    return {
        "wavelength_nm": centre_nm.astype(np.float32),
        "samples": samples[keep].astype(np.uint8),
        "clear_radiance": clear.astype(np.float32),
        "absorbance": absorbance.astype(np.float32),
        "enhancement_ppm_m": ENHANCEMENTS_PPM_M,
    }


def main() -> None:
    """Write the table to the file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    np.savez_compressed(out, **derive_table())
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
