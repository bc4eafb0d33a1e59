"""Shapes of simulated plume labels beside outlines that reviewers drew in real scenes.

    python benchmarks/plume_shapes.py --outlines FILE.json [--sensor emit] [--tiles 300] [--json OUT]

FILE.json is a list of outlines in pixels: `[{"fid": SCENE, "coords": [[col, row], ...]}, ...]`, as the reviewed EMIT
plume complexes are published. Compared are area, elongation (ratio of the principal axes), solidity (area over that of
the convex hull) and into how many parts a plume falls (outlines of one scene nearer than 10 pixels are parts of one).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rasterio.features import rasterize
from scipy import ndimage
from scipy.spatial import ConvexHull

from flame.files import write_json
from flame.simulate import PRESETS, preset, tile_generator
from flame.simulate.visibility import draw_labelled_plume

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
NEAR_PX = 10
LEAST_PX = 10


@dataclass(frozen=True)
class Shape:
    """One plume: area in pixels, ratio of its axes, share of its convex hull, number of parts."""

    area_px: float
    elongation: float
    solidity: float
    parts: int


def shapes_of(mask: np.ndarray) -> list[Shape]:
    """The plumes of a mask; pieces nearer than `NEAR_PX` belong to one."""
    pieces, _ = ndimage.label(mask, np.ones((3, 3)))
    groups, count = ndimage.label(ndimage.distance_transform_edt(~mask) <= NEAR_PX / 2) if mask.any() else (mask, 0)
    found = []
    for index in range(1, count + 1):
        here = (groups == index) & mask
        rows, cols = np.nonzero(here)
        if rows.size < LEAST_PX or np.ptp(rows) < 1 or np.ptp(cols) < 1:
            continue
        # A pixel is a square: its own extent counts for the axes and the hull.
        spread = np.linalg.eigvalsh(np.cov(np.stack([rows, cols]), bias=True) + np.eye(2) / 12)
        corners = np.concatenate([np.stack([rows + dy, cols + dx], 1) for dy in (0, 1) for dx in (0, 1)])
        hull = ConvexHull(corners).volume
        parts = np.unique(pieces[here]).size
        found.append(Shape(float(rows.size), float(np.sqrt(spread[1] / spread[0])), float(rows.size / hull), parts))
    return found


def outlined(path: Path) -> list[Shape]:
    """Shapes of drawn outlines, scene by scene."""
    scenes = defaultdict(list)
    for entry in json.loads(path.read_text(encoding="utf-8")):
        ring = entry["coords"]
        if len({tuple(point) for point in ring}) >= 4:
            scenes[entry["fid"]].append(ring)
    found = []
    for rings in scenes.values():
        points = np.concatenate([np.asarray(ring, dtype=float) for ring in rings])
        low = points.min(axis=0) - NEAR_PX
        size = np.ceil(points.max(axis=0) - low).astype(int) + NEAR_PX
        polygons = [{"type": "Polygon", "coordinates": [(np.asarray(ring) - low).tolist()]} for ring in rings]
        found += shapes_of(rasterize(polygons, out_shape=(size[1], size[0])).astype(bool))
    return found


def simulated(name: str, sensor: str, size: int, tiles: int, noise_ppm_m: float, seed: int) -> list[Shape]:
    """Shapes of simulated labels over even ground of this noise."""
    found = []
    everywhere, noise = np.ones((size, size), bool), np.full((size, size), noise_ppm_m, np.float32)
    for index in range(tiles):
        rng = tile_generator(seed, index)
        settings = preset(name, size=size, sensor_name=sensor).regime(rng)
        plume = draw_labelled_plume(rng, settings, 1.0, noise, everywhere)
        found += shapes_of(plume.label)
    return found


def table(columns: dict[str, list[Shape]]) -> dict[str, dict[str, list[float]]]:
    """Quantiles of each measure, the most elongated, and the share of plumes in one part."""
    rows: dict[str, dict[str, list[float]]] = {}
    for title, shapes in columns.items():
        rows[title] = {
            name: np.quantile([getattr(s, name) for s in shapes], QUANTILES).round(2).tolist()
            for name in ("area_px", "elongation", "solidity")
        }
        rows[title]["most elongated"] = sorted((round(s.elongation, 2) for s in shapes), reverse=True)[: len(QUANTILES)]
        rows[title]["share in one part"] = [round(float(np.mean([s.parts == 1 for s in shapes])), 3)]
    return rows


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outlines", type=Path, required=True, help="JSON file of drawn outlines")
    parser.add_argument("--sensor", default="emit", help="sensor the outlines were drawn in")
    parser.add_argument("--preset", default="permian", choices=sorted(PRESETS))
    parser.add_argument("--noise", type=float, default=250.0, help="visible noise, ppm m")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--tiles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    ours = simulated(given.preset, given.sensor, given.size, given.tiles, given.noise, given.seed)
    rows = table({"drawn": outlined(given.outlines), f"simulated, {given.preset}": ours})
    for title, figures in rows.items():
        print(f"{title} (quantiles {QUANTILES})")
        for name, values in figures.items():
            print(f"  {name:18s} " + "  ".join(f"{value:8.2f}" for value in values))
    if given.json:
        write_json(given.json, rows)


if __name__ == "__main__":
    main()
