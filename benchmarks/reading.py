"""Full-size products read by FLAME and as a user of xarray would, and detected in: seconds by stage and peak memory.

    python benchmarks/reading.py --folder /somewhere/large --json reading.json
    python benchmarks/reading.py --lines 320 --rounds 5 --only-reading     # a quick look

makes an EMIT-like granule (1280 x 1242 x 285, netCDF4) in one piece, as its makers' public formatter writes it, and
deflated in chunks, as it is often passed on, and an AVIRIS-NG-like line (3000 x 598 x 425, ENVI BIL, 3 GB) in the
folder, unless they are there, and measures every contender in a process of its own. Processor time is told beside the
clock's: it does not mind neighbours. All ground repeats after 32 lines, which no reader can know.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flame.physics import METHANE_WINDOW_NM, BandSet, clear_sky_radiance, sensor

EMIT_SHAPE, AVIRIS_SHAPE = (1280, 1242), (3000, 598)
EMIT_NAME = "EMIT_L1B_RAD_001_20230614T094107_2316506_004.nc"
AVIRIS_NAME = "ang20230614t094107_rdn_v2x1_img"
CHUNK = (32, 207, 57)
RGB_NM = (640, 550, 460)


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


def make_emit(path: Path, rows: int, deflated: bool) -> None:
    bands = sensor("emit").bands
    cols, block = EMIT_SHAPE[1], lines(np.random.default_rng(1), spectrum(bands), CHUNK[0], EMIT_SHAPE[1])
    packing = {"chunks": CHUNK, "compression": "gzip", "compression_opts": 1} if deflated else {}
    with h5py.File(path, "w") as file:
        stored = file.create_dataset("radiance", (rows, cols, len(bands)), "f4", **packing)
        stored.attrs["units"], stored.attrs["_FillValue"] = "uW/cm^2/SR/nm", np.array([-9999.0], "f4")
        for first in range(0, CHUNK[0] if deflated else rows, CHUNK[0]):
            stored[first : first + CHUNK[0]] = block
        if deflated:
            file.flush()
            for corner in product(range(0, cols, CHUNK[1]), range(0, len(bands), CHUNK[2])):
                mask, piece = stored.id.read_direct_chunk((0, *corner))
                for first in range(CHUNK[0], rows, CHUNK[0]):
                    stored.id.write_direct_chunk((first, *corner), piece, mask)
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


def make_aviris(path: Path, rows: int) -> None:
    bands, cols = sensor("aviris-ng").bands, AVIRIS_SHAPE[1]
    block = lines(np.random.default_rng(2), spectrum(bands), CHUNK[0], cols).transpose(0, 2, 1)
    with path.open("wb") as file:
        for first in range(0, rows, CHUNK[0]):
            file.write(np.ascontiguousarray(block[: min(CHUNK[0], rows - first)]).tobytes())
    centres = ", ".join(f"{value:.4f}" for value in bands.centres_nm)
    widths = ", ".join(f"{value:.4f}" for value in bands.fwhm_nm)
    path.with_name(path.name + ".hdr").write_text(
        f"ENVI\nsamples = {cols}\nlines = {rows}\nbands = {len(bands)}\nheader offset = 0\ndata type = 4\n"
        f"interleave = bil\nbyte order = 0\ndata ignore value = -9999\nwavelength units = Nanometers\n"
        f"map info = {{UTM, 1, 1, 600000, 4200000, 5, 5, 40, North, WGS-84, units=Meters}}\n"
        f"wavelength = {{{centres}}}\nfwhm = {{{widths}}}\n"
    )


def run_flame_read(path: Path, masks: bool = False) -> dict[str, float]:
    """All lines of the methane window and the colours, block by block; with masks, the bands their tests need too."""
    from flame.io import OpenOptions, open_scene

    began = Clock()
    total = 0.0
    for part in open_scene(path, OpenOptions(find_surface=masks)).blocks():
        total += float(part.radiance[0].sum())
    return began.told("read")


def run_flame_read_masks(path: Path) -> dict[str, float]:
    return run_flame_read(path, masks=True)


def run_xarray_read(path: Path) -> dict[str, float]:
    """The same bands as a user of xarray loads them: the window, and three bands for a picture."""
    import xarray

    began = Clock()
    with xarray.open_dataset(path, engine="h5netcdf", phony_dims="sort") as data:
        centres = xarray.open_dataset(path, engine="h5netcdf", group="sensor_band_parameters", phony_dims="sort")
        nm = centres["wavelengths"].values
        inside = np.flatnonzero((nm >= METHANE_WINDOW_NM[0]) & (nm <= METHANE_WINDOW_NM[1]))
        axis = data["radiance"].dims[2]
        window = data["radiance"].isel({axis: slice(int(inside[0]), int(inside[-1]) + 1)}).values
        colours = [data["radiance"].isel({axis: int(np.argmin(np.abs(nm - at)))}).values for at in RGB_NM]
    assert window.shape[2] == inside.size
    assert len(colours) == 3
    return began.told("read")


def run_rasterio_read(path: Path) -> dict[str, float]:
    """The same bands of an ENVI cube through rasterio, on which xarray's reader of ENVI stands."""
    import rasterio

    began = Clock()
    with rasterio.open(path) as source:
        nm = np.array([float(source.tags(at)["wavelength"]) for at in source.indexes])
        inside = np.flatnonzero((nm >= METHANE_WINDOW_NM[0]) & (nm <= METHANE_WINDOW_NM[1]))
        window = source.read([*(inside + 1).tolist(), *(int(np.argmin(np.abs(nm - at))) + 1 for at in RGB_NM)])
    assert len(window) == inside.size + 3
    return began.told("read")


class Clock:
    """Seconds since it was made, by the clock and of the processor."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def told(self, stage: str) -> dict[str, float]:
        return {f"{stage}_s": time.perf_counter() - self._wall, f"{stage}_cpu_s": time.process_time() - self._cpu}


def run_flame_detect(path: Path) -> dict[str, float]:
    """`flame detect`, timed by stage."""
    from flame.io import open_scene
    from flame.onboard import Detectors
    from flame.pipeline.measure import measure_scene
    from flame.pipeline.scene_products import write_products

    began = Clock()
    scene = open_scene(path)
    opened = time.perf_counter()
    detector = Detectors().for_bands(scene.bands)
    loaded = time.perf_counter()
    detection = detector.run(scene)
    detected = Clock()
    measured = measure_scene(scene, detection, path.stem)
    with tempfile.TemporaryDirectory() as folder:
        write_products(Path(folder), path.name, scene, detection, detector, measured)
    spent = detection.timings
    found = began.told("total") | detected.told("products")
    found |= {f"{stage}_s": getattr(spent, f"{stage}_s") for stage in ("prepare", "infer", "blend", "decide")}
    inside = spent.prepare_s + spent.infer_s + spent.blend_s + spent.decide_s
    return found | {
        "model_s": loaded - opened,
        "read_s": found["total_s"] - found["products_s"] - (loaded - opened) - inside,
    }


CONTENDERS = {
    "flame-read": run_flame_read,
    "flame-read-masks": run_flame_read_masks,
    "xarray-read": run_xarray_read,
    "rasterio-read": run_rasterio_read,
    "flame-detect": run_flame_detect,
}


def measured(contender: str, path: Path) -> dict[str, Any]:
    """One contender in a process of its own."""
    command = [sys.executable, __file__, "--only", contender, str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def peak_mb() -> float:
    """Largest memory of this process; what Linux tells of it alone, since a child begins with its parent's."""
    status = Path("/proc/self/status")
    match = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return (int(match[1]) if match else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def products(folder: Path, rows: int | None) -> dict[str, Path]:
    """The files, made if they are not there."""
    emit_rows, aviris_rows = rows or EMIT_SHAPE[0], rows or AVIRIS_SHAPE[0]
    found = {}
    for name, make in (
        ("emit", partial(make_emit, rows=emit_rows, deflated=False)),
        ("emit-deflated", partial(make_emit, rows=emit_rows, deflated=True)),
        ("aviris", partial(make_aviris, rows=aviris_rows)),
    ):
        home = folder / f"{name}-{rows or 'full'}"
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=folder) as unfinished:
                made = Path(unfinished) / home.name
                made.mkdir()
                make(made / (AVIRIS_NAME if name == "aviris" else EMIT_NAME))
                made.rename(home)
        found[name] = home / (AVIRIS_NAME if name == "aviris" else EMIT_NAME)
    return found


JOBS = (
    ("flame-read", "emit"),
    ("xarray-read", "emit"),
    ("flame-read-masks", "emit"),
    ("flame-read", "emit-deflated"),
    ("xarray-read", "emit-deflated"),
    ("flame-read-masks", "emit-deflated"),
    ("flame-read", "aviris"),
    ("rasterio-read", "aviris"),
    ("flame-detect", "emit"),
    ("flame-detect", "aviris"),
)


def summary_of(best: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The figures that the docs give, where they were measured."""

    def ratio(theirs: str, ours: str, name: str, key: str) -> float:
        return best[theirs, name][key] / best[ours, name][key]

    summary: dict[str, Any] = {}
    for name in ("emit", "emit-deflated"):
        end = "" if name == "emit" else "_deflated"
        for key, word in (("read_s", ""), ("read_cpu_s", "_cpu")):
            summary[f"vs_xarray{end}{word}"] = ratio("xarray-read", "flame-read", name, key)
            summary[f"vs_xarray_with_masks{end}{word}"] = ratio("xarray-read", "flame-read-masks", name, key)
        summary[f"xarray_peak_mb{end}"] = best["xarray-read", name]["peak_mb"]
    for key, word in (("read_s", ""), ("read_cpu_s", "_cpu")):
        summary[f"aviris_vs_rasterio{word}"] = ratio("rasterio-read", "flame-read", "aviris", key)
    for name in ("emit", "aviris"):
        if ("flame-detect", name) in best:
            summary[f"{name}_seconds"] = best["flame-detect", name]["total_s"]
            summary[f"{name}_peak_mb"] = best["flame-detect", name]["peak_mb"]
    return summary | {"stages": {" ".join(job): run for job, run in best.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "flame-reading")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--lines", type=int, help="lines of each file, for a quick look; by default full size")
    parser.add_argument("--only-reading", action="store_true", help="leave `flame detect` out")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.only:
        print(json.dumps(CONTENDERS[told.only[0]](Path(told.only[1])) | {"peak_mb": peak_mb()}))
        return
    told.folder.mkdir(parents=True, exist_ok=True)
    paths = products(told.folder, told.lines)
    jobs = [job for job in JOBS if not (told.only_reading and job[0] == "flame-detect")]
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(told.rounds):  # in turns, so that whatever else the machine does meets all alike
        for contender, name in jobs:
            runs.setdefault((contender, name), []).append(measured(contender, paths[name]))
    best = {job: {key: min(run[key] for run in some) for key in some[0]} for job, some in runs.items()}
    for (contender, name), run in best.items():
        print(f"{contender:17} {name:14} " + "  ".join(f"{key} {value:.2f}" for key, value in run.items()))
    summary = summary_of(best)
    print("\n".join(f"{key}: {value:.2f}" for key, value in summary.items() if key != "stages"))
    if told.json:
        told.json.write_text(json.dumps({"lines": told.lines or "full size"} | summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
