"""What a file is, before anybody works on it: what `flame info` tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flame.io import OpenOptions, find_reader, open_scene
from flame.onboard import choose_model
from flame.physics import RADIANCE_UNIT, SMILE_MATTERS_NM
from flame.products.geolocate import longitude_latitude, pixel_area_m2
from flame.scene import AnyScene, BandMismatchError, GeoGrid, flag_counts, flag_names

__all__ = ["describe_file", "describe_scene"]


def describe_file(path: Path | str, options: OpenOptions | None = None) -> tuple[dict[str, Any], AnyScene]:
    """Opens a file, reads it once from top to bottom, and tells what it is; also returns the opened scene.

    Raises:
        ReaderError: If it cannot be read.
    """
    path = Path(path)
    reader = find_reader(path)
    scene = open_scene(path, options)
    return {"file": str(path), "format": reader.name, "what": reader.looks_like} | describe_scene(scene), scene


def describe_scene(scene: AnyScene) -> dict[str, Any]:
    """What is known of a scene, by name."""
    seen, (rows, cols) = scene.acquisition, scene.shape
    flags = scene.flags
    usable = int(np.count_nonzero(scene.valid))
    mask = getattr(scene, "rule", None)
    return {
        "sensor": seen.sensor,
        "time": None if seen.time is None else seen.time.isoformat(),
        "rows": rows,
        "columns": cols,
        "bands": {
            "count": len(scene.bands),
            "first_nm": round(float(scene.bands.centres_nm[0]), 3),
            "last_nm": round(float(scene.bands.centres_nm[-1]), 3),
            "fwhm_nm": [round(float(scene.bands.fwhm_nm.min()), 3), round(float(scene.bands.fwhm_nm.max()), 3)],
            "rgb": scene.has_rgb,
            "smile_nm": None if scene.smile is None else round(scene.smile.spread_nm, 3),
        },
        "unit": RADIANCE_UNIT,
        "solar_zenith_deg": _rounded(seen.solar_zenith_deg),
        "view_zenith_deg": _rounded(seen.view_zenith_deg),
        "geometry": _geometry(scene.geo, scene.shape),
        "usable_share": usable / (rows * cols),
        "flagged_share": {} if flags is None else {k: n / flags.size for k, n in flag_counts(flags).items()},
        "masked": [] if mask is None else flag_names(mask.masked),
        "notes": dict(seen.extra),
        "would_run": _would_run(scene),
    }


def _rounded(angle: float | None) -> float | None:
    return None if angle is None else round(angle, 3)


def _geometry(geo: GeoGrid | None, shape: tuple[int, int]) -> dict[str, Any] | None:
    if geo is None:
        return None
    rows, cols = shape
    corner_rows, corner_cols = np.array([0.0, 0.0, rows, rows]), np.array([0.0, cols, cols, 0.0])
    lon, lat = longitude_latitude(geo, np.append(corner_rows, rows / 2), np.append(corner_cols, cols / 2))
    pixel_m = pixel_area_m2(geo, rows / 2, cols / 2) ** 0.5
    return {
        "from": geo.source or "map grid",
        "crs": geo.crs if geo.crs is not None else (geo.table.crs if geo.table is not None else "EPSG:4326"),
        "centre_latitude": round(float(lat[4]), 6),
        "centre_longitude": round(float(lon[4]), 6),
        "corners": [[round(float(x), 6), round(float(y), 6)] for x, y in zip(lon[:4], lat[:4], strict=True)],
        "pixel_m": round(pixel_m, 2),
        "look_up_table": geo.table is not None,
    }


def _would_run(scene: AnyScene) -> dict[str, str]:
    """The packaged model whose bands these are, and the filter, which works for any."""
    smile = scene.smile is not None and scene.smile.spread_nm > SMILE_MATTERS_NM
    answer = {"filter": "mag1c" + (", columns in groups of their own wavelengths" if smile else "")}
    try:
        model = choose_model(None, scene.bands)
    except BandMismatchError:
        return answer | {"model": "none was made for these bands: `flame detect` takes the noise-aware matched filter"}
    return {"model": f"{model.manifest.name} for {model.manifest.sensor}"} | answer
