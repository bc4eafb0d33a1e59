"""Full-size products read by FLAME and as a user of xarray would, and detected in: seconds by stage and peak memory.

    python benchmarks/reading.py --folder /somewhere/large --json reading.json

makes an EMIT-like granule (1280 x 1242 x 285, netCDF4) and an AVIRIS-NG-like line (3000 x 598 x 425, ENVI BIL, 3 GB) in
the folder, unless they are there, and measures every contender in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flame.physics import METHANE_WINDOW_NM, BandSet, clear_sky_radiance, sensor

EMIT_SHAPE, AVIRIS_SHAPE = (1280, 1242), (3000, 598)
EMIT_NAME = "EMIT_L1B_RAD_001_20230614T094107_2316506_004.nc"
AVIRIS_NAME = "ang20230614t094107_rdn_v2x1_img"
CHUNK = (32, 207, 57)


def spectrum(bands: BandSet) -> np.ndarray:
    """Radiance over bright ground: the packaged table's where it reaches, a falling curve elsewhere."""
    light = np.interp(bands.centres_nm, [380, 500, 900, 1400, 2500], [8.0, 9.0, 6.0, 2.0, 0.3])
    inside = bands.within(1410.0, 2490.0)
    light[inside] = clear_sky_radiance(bands.select(inside))
    light[(bands.centres_nm > 1340) & (bands.centres_nm < 1450)] *= 0.003  # else it would be taken for cirrus
    return (0.5 * light).astype(np.float32)


def lines(rng: np.random.Generator, light: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Some lines of ground, (row, col, band)."""
    albedo = rng.uniform(0.5, 1.2, (rows, cols, 1)).astype(np.float32)
    noise = rng.standard_normal((rows, cols, light.size), dtype=np.float32)
    return albedo * light * (1 + noise / 300)


def make_emit(path: Path) -> None:
    rng, bands = np.random.default_rng(1), sensor("emit").bands
    rows, cols = EMIT_SHAPE
    light = spectrum(bands)
    with h5py.File(path, "w") as file:
        stored = file.create_dataset(
            "radiance", (rows, cols, len(bands)), "f4", chunks=CHUNK, compression="gzip", compression_opts=1
        )
        stored.attrs["units"], stored.attrs["_FillValue"] = "uW/cm^2/SR/nm", np.array([-9999.0], "f4")
        for first in range(0, rows, CHUNK[0]):
            stored[first : first + CHUNK[0]] = lines(rng, light, CHUNK[0], cols)
        file["sensor_band_parameters/wavelengths"] = bands.centres_nm.astype(np.float32)
        file["sensor_band_parameters/fwhm"] = bands.fwhm_nm.astype(np.float32)
        down, across = np.indices((rows, cols))
        file["location/lat"] = 38.0 - 0.00054 * down
        file["location/lon"] = 54.0 + 0.00054 * across
        file["location/glt_y"] = (down + 1).astype(np.int32)
        file["location/glt_x"] = (across + 1).astype(np.int32)
        file.attrs["geotransform"] = np.array([54.0 - 0.00027, 0.00054, 0.0, 38.0 + 0.00027, 0.0, -0.00054])
        file.attrs["spatial_ref"] = "EPSG:4326"
        file.attrs["time_coverage_start"] = "2023-06-14T09:41:07+0000"


def make_aviris(path: Path) -> None:
    rng, bands = np.random.default_rng(2), sensor("aviris-ng").bands
    rows, cols = AVIRIS_SHAPE
    light = spectrum(bands)
    with path.open("wb") as file:
        for first in range(0, rows, 50):
            block = lines(rng, light, min(50, rows - first), cols)
            file.write(np.ascontiguousarray(block.transpose(0, 2, 1)).tobytes())
    centres = ", ".join(f"{value:.4f}" for value in bands.centres_nm)
    widths = ", ".join(f"{value:.4f}" for value in bands.fwhm_nm)
    path.with_name(path.name + ".hdr").write_text(
        f"ENVI\nsamples = {cols}\nlines = {rows}\nbands = {len(bands)}\nheader offset = 0\ndata type = 4\n"
        f"interleave = bil\nbyte order = 0\ndata ignore value = -9999\nwavelength units = Nanometers\n"
        f"map info = {{UTM, 1, 1, 600000, 4200000, 5, 5, 40, North, WGS-84, units=Meters}}\n"
        f"wavelength = {{{centres}}}\nfwhm = {{{widths}}}\n"
    )


def run_flame_read(path: Path) -> dict[str, float]:
    """All lines of the methane window and the colours, block by block."""
    from flame.io import open_scene

    began = time.perf_counter()
    total = 0.0
    for part in open_scene(path).blocks():
        total += float(part.radiance[0].sum())
    return {"read_s": time.perf_counter() - began}


def run_xarray_read(path: Path) -> dict[str, float]:
    """The same bands as a user of xarray loads them: the window, and three bands for a picture."""
    import xarray

    began = time.perf_counter()
    with xarray.open_dataset(path, engine="h5netcdf", phony_dims="sort") as data:
        centres = xarray.open_dataset(path, engine="h5netcdf", group="sensor_band_parameters", phony_dims="sort")
        nm = centres["wavelengths"].values
        inside = np.flatnonzero((nm >= METHANE_WINDOW_NM[0]) & (nm <= METHANE_WINDOW_NM[1]))
        axis = data["radiance"].dims[2]
        window = data["radiance"].isel({axis: slice(int(inside[0]), int(inside[-1]) + 1)}).values
        colours = [data["radiance"].isel({axis: int(np.argmin(np.abs(nm - at)))}).values for at in (640, 550, 460)]
    assert window.shape[2] == inside.size
    assert len(colours) == 3
    return {"read_s": time.perf_counter() - began}


def run_flame_detect(path: Path) -> dict[str, float]:
    """`flame detect`, timed by stage."""
    from flame.io import open_scene
    from flame.onboard import Detectors
    from flame.pipeline.scene_products import write_products

    began = time.perf_counter()
    scene = open_scene(path)
    opened = time.perf_counter()
    detector = Detectors().for_bands(scene.bands)
    loaded = time.perf_counter()
    detection = detector.run(scene)
    detected = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write_products(Path(folder), path.name, scene, detection, detector)
    ended = time.perf_counter()
    spent = detection.timings
    inside = spent.prepare_s + spent.infer_s + spent.blend_s + spent.decide_s
    return {
        "open_s": opened - began,
        "model_s": loaded - opened,
        "read_s": detected - loaded - inside,
        "prepare_s": spent.prepare_s,
        "infer_s": spent.infer_s,
        "blend_s": spent.blend_s,
        "decide_s": spent.decide_s,
        "products_s": ended - detected,
        "total_s": ended - began,
    }


CONTENDERS = {"flame-read": run_flame_read, "xarray-read": run_xarray_read, "flame-detect": run_flame_detect}


def measured(contender: str, path: Path) -> dict[str, Any]:
    """One contender in a process of its own."""
    command = [sys.executable, __file__, "--only", contender, str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "flame-reading")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.only:
        result = CONTENDERS[told.only[0]](Path(told.only[1]))
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(result | {"peak_mb": peak_mb}))
        return
    told.folder.mkdir(parents=True, exist_ok=True)
    emit, aviris = told.folder / EMIT_NAME, told.folder / AVIRIS_NAME
    for path, make in ((emit, make_emit), (aviris, make_aviris)):
        if not path.exists():
            partial = path.with_name(f"partial-{path.name}")
            make(partial)
            partial.rename(path)
            header = partial.with_name(partial.name + ".hdr")
            if header.exists():
                header.rename(path.with_name(path.name + ".hdr"))
    jobs = [
        ("flame-read", emit),
        ("xarray-read", emit),
        ("flame-detect", emit),
        ("flame-read", aviris),
        ("flame-detect", aviris),
    ]
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(told.rounds):  # in turns, so that whatever else the machine does meets all alike
        for contender, path in jobs:
            runs.setdefault((contender, path.name), []).append(measured(contender, path))
    best = {key: min(some, key=lambda run: run.get("total_s", run["read_s"])) for key, some in runs.items()}
    for (contender, name), run in best.items():
        print(f"{contender:13} {name:50} " + "  ".join(f"{key} {value:.2f}" for key, value in run.items()))
    emit_run = best["flame-detect", emit.name]
    summary = {
        "emit_seconds": emit_run["total_s"],
        "emit_peak_mb": emit_run["peak_mb"],
        "vs_xarray": best["xarray-read", emit.name]["read_s"] / best["flame-read", emit.name]["read_s"],
        "xarray_peak_mb": best["xarray-read", emit.name]["peak_mb"],
        "aviris_seconds": best["flame-detect", aviris.name]["total_s"],
        "aviris_peak_mb": best["flame-detect", aviris.name]["peak_mb"],
        "stages": {f"{contender} {name}": run for (contender, name), run in best.items()},
    }
    print(f"xarray takes {summary['vs_xarray']:.2f} times as long to read the same bands")
    if told.json:
        told.json.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
