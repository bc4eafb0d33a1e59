"""Writes src/flame/simulate/data/surfaces.npz: reflectances and sunlight for the simulator.

The reflectances are a diverse subset of earthlib's spectral library (MIT), the solar irradiance is ASTM G173 as
packaged by pvlib. Run it in the development environment:

    python tools/make_surface_table.py
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import earthlib
import numpy as np
import pvlib

OUT = Path(__file__).parents[1] / "src" / "flame" / "simulate" / "data" / "surfaces.npz"

VISIBLE_NM = np.array([460.0, 550.0, 640.0])
SWIR_NM = np.arange(2090.0, 2511.0, 10.0)
LAST_MEASURED_NM = 2450.0
SCALE = 60_000.0
"""Reflectance is stored as an integer of 1/60000: far below the spectra's own error."""

KINDS: dict[str, tuple[tuple[str, ...], int]] = {
    "soil": (("soil", "dirt"), 420),
    "sand": (("sand", "gravel"), 60),
    "canopy": (("canopy",), 240),
    "dry_plant": (("litter", "bark", "npv", "wood", "mixed"), 100),
    "char": (("char",), 20),
    "road": (("road", "asphalt", "parking_lot", "driveway", "bridge", "sidewalk"), 180),
    "roof": (("comp_shingle", "wood_shingle", "concrete_tile", "tile", "metal", "other", "glass", "manhole"), 220),
    "paint": (("paint",), 70),
}
"""Kind in the simulator: earthlib's LEVEL_3 classes and how many spectra to keep."""


def read_library() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Wavelengths in nm, reflectance (spectrum, wavelength) and the class of each spectrum."""
    folder = Path(earthlib.__file__).parent / "data"
    header = (folder / "spectra.sli.hdr").read_text()
    listed = re.search(r"wavelength\s*=\s*\{([^}]*)\}", header)
    lines, samples = (re.search(rf"{key}\s*=\s*(\d+)", header) for key in ("lines", "samples"))
    if not (listed and lines and samples):
        raise SystemExit("spectra.sli.hdr is not the ENVI header this tool was written for")
    wavelength_nm = 1000.0 * np.array([float(x) for x in listed[1].split(",")])
    reflectance = np.fromfile(folder / "spectra.sli", dtype="<f4").reshape(int(lines[1]), int(samples[1]))
    with (folder / "spectra.csv").open(newline="") as stream:
        classes = [row["LEVEL_3"] for row in csv.DictReader(stream)]
    return wavelength_nm, reflectance.astype(np.float64), classes


def extend(wavelength_nm: np.ndarray, spectra: np.ndarray) -> np.ndarray:
    """Spectra on SWIR_NM: the measured values, then the mean slope of the last 60 nm fading out over 60 nm."""
    inside = SWIR_NM[SWIR_NM <= LAST_MEASURED_NM]
    measured = np.stack([np.interp(inside, wavelength_nm, s) for s in spectra])
    slope = (measured[:, -1] - measured[:, -7]) / (inside[-1] - inside[-7])
    beyond_nm = SWIR_NM[SWIR_NM > LAST_MEASURED_NM] - LAST_MEASURED_NM
    run_nm = 60.0 * (1.0 - np.exp(-beyond_nm / 60.0))
    return np.concatenate([measured, measured[:, -1:] + slope[:, None] * run_nm], axis=1)


def most_diverse(features: np.ndarray, count: int) -> np.ndarray:
    """Indices by farthest-point sampling, starting at the spectrum nearest to the mean."""
    chosen = [int(np.argmin(np.linalg.norm(features - features.mean(axis=0), axis=1)))]
    distance = np.linalg.norm(features - features[chosen[0]], axis=1)
    while len(chosen) < min(count, len(features)):
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.linalg.norm(features - features[chosen[-1]], axis=1))
    return np.sort(np.array(chosen))


def thin(swir: np.ndarray, visible: np.ndarray, count: int) -> np.ndarray:
    """Half the spectra far apart in shape, the other half an even draw so that common ones stay common."""
    shape = np.log(np.maximum(swir, 0.005))
    brightness = shape.mean(axis=1, keepdims=True)
    features = np.concatenate([10.0 * (shape - brightness), 0.5 * brightness, visible], axis=1)
    far = most_diverse(features, count // 2)
    rest = np.setdiff1d(np.arange(len(swir)), far)
    even = rest[np.linspace(0, rest.size - 1, min(count - far.size, rest.size)).astype(int)] if rest.size else rest
    return np.sort(np.concatenate([far, even]))


def main() -> None:
    """Reads the sources and writes the table."""
    wavelength_nm, reflectance, classes = read_library()
    swir = extend(wavelength_nm, reflectance)
    visible = np.stack([np.interp(VISIBLE_NM, wavelength_nm, s) for s in reflectance])
    sound = (swir > 0.002).all(axis=1) & (swir < 1.0).all(axis=1) & (visible > 0.002).all(axis=1)
    kept, kinds = [], []
    for kind, (names, count) in KINDS.items():
        members = np.flatnonzero(sound & np.isin(classes, names))
        chosen = members[thin(swir[members], visible[members], count)]
        kept.append(chosen)
        kinds += [kind] * chosen.size
    index = np.concatenate(kept)
    sun = pvlib.spectrum.get_reference_spectra()["extraterrestrial"]
    sun_nm = np.concatenate([VISIBLE_NM, SWIR_NM])
    # 10 nm means; W m-2 nm-1 is 100 µW cm-2 nm-1.
    irradiance = [100.0 * float(sun[(sun.index >= nm - 5) & (sun.index <= nm + 5)].mean()) for nm in sun_nm]
    OUT.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        OUT,
        kind=np.array(kinds),
        visible_nm=VISIBLE_NM,
        swir_nm=SWIR_NM,
        reflectance=np.round(np.concatenate([visible, swir], axis=1)[index] * SCALE).astype(np.uint16),
        scale=SCALE,
        irradiance=np.array(irradiance, dtype=np.float32),
    )
    print(f"{OUT.name}: {index.size} spectra, {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
