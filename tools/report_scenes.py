"""Reports of an EMIT-like and an AVIRIS-NG-like scene, and the pictures of them in docs/.

The scenes are simulated and written as files of the two products, so that the whole chain runs: reader, detection,
measurement, products.

    python tools/report_scenes.py out [--pictures docs/pictures] [--only emit] [--coefficients emit]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "io"))

import product_files  # noqa: E402
from product_ground import SOUTH_WEST_LAT, SOUTH_WEST_LON, Ground  # noqa: E402

from flame.onboard import Detectors  # noqa: E402
from flame.physics import Wind, sensor  # noqa: E402
from flame.pipeline.detect import detect_files  # noqa: E402
from flame.pipeline.measure import MeasureSettings  # noqa: E402
from flame.rates import OWN  # noqa: E402
from flame.simulate import preset, simulate_tile, tile_generator  # noqa: E402
from flame.tile import LabelledTile  # noqa: E402

TURN_DEG = 12.0
CHROMIUM = "/usr/bin/chromium"


@dataclass(frozen=True)
class Show:
    """One scene to show.

    Attributes:
        sensor: Whose file it is.
        size: Rows and columns.
        seed: Which scene of the simulator.
        preset: Kind of scene.
        sources: How many.
    """

    sensor: str
    size: int
    seed: int
    preset: str = "permian"
    sources: int = 2


SHOWS = {"emit": Show("emit", 360, 5), "aviris-ng": Show("aviris-ng", 400, 11, sources=1)}
WRITERS = {"emit": product_files.write_emit, "aviris-ng": product_files.write_aviris_ng}


def simulated(show: Show) -> LabelledTile:
    """A tile with exactly so many sources."""
    settings = preset(show.preset, size=show.size, sensor_name=show.sensor)
    shares = tuple(1.0 if count == show.sources else 0.0 for count in range(4))
    strong = {"emission_median_kg_h": 160.0, "emission_log_sigma": 0.4, "wind_range_m_s": (2.5, 5.0), "margin": 0.0}
    settings = replace(settings, plume=replace(settings.plume, source_shares=shares, burst_share=0.0, **strong))
    return simulate_tile(tile_generator(show.seed, 0), settings, "shown").tile


def ground_of(tile: LabelledTile, pixel_m: float) -> Ground:
    """The tile as what a product file is made of: its own bands and three visible ones, on a turned swath."""
    scene = tile.scene
    assert scene.rgb is not None
    bands = sensor(scene.acquisition.sensor or "").bands
    which = bands.within(scene.bands.centres_nm[0] - 0.1, scene.bands.centres_nm[-1] + 0.1)
    visible = [bands.nearest(nm) for nm in (460.0, 550.0, 640.0)]
    which[visible] = True
    radiance = np.concatenate([scene.rgb[::-1], scene.radiance]).astype(np.float32)
    radiance[:, ~scene.valid] = product_files.FILL
    rows = scene.shape[0]
    down, across = np.indices(scene.shape)
    turn, side = np.deg2rad(TURN_DEG), pixel_m / 111_320.0
    north = (rows - down) * np.cos(turn) - across * np.sin(turn)
    east = across * np.cos(turn) + (rows - down) * np.sin(turn)
    empty = np.zeros(scene.shape, np.bool_)
    latitude = SOUTH_WEST_LAT + north * side
    longitude = SOUTH_WEST_LON + east * side / np.cos(np.deg2rad(SOUTH_WEST_LAT))
    column = np.zeros(scene.shape)
    return Ground(bands.select(which), radiance, latitude, longitude, empty, empty, (0, 0), column, side)


def make_report(show: Show, out: Path, coefficients: str) -> Path:
    """The page of one scene."""
    tile = simulated(show)
    source = tile.sources[0]
    folder = out / f"{show.sensor}-input"
    folder.mkdir(parents=True, exist_ok=True)
    pixel_m = preset(show.preset, size=show.size, sensor_name=show.sensor).pixel_m
    path = WRITERS[show.sensor](folder, ground_of(tile, pixel_m))
    wind = Wind(source.wind_m_s, (source.wind_to_deg + 180.0 + TURN_DEG) % 360.0, source="given")
    measure = MeasureSettings((wind,), coefficients=coefficients)
    (outcome,) = detect_files([path], out / show.sensor, Detectors(), measure=measure, force=True)
    for known in tile.sources:
        print(f"{show.sensor}: source of {known.emission_kg_h:.0f} kg/h, wind {known.wind_m_s:.1f} m/s")
    if outcome.folder is None:
        raise SystemExit(f"{path}: {outcome.failure}")
    return outcome.folder / "report.html"


def take_pictures(pages: dict[str, Path], out: Path) -> None:
    """Three screenshots: both reports at a desk, one on a phone in the dark."""
    from playwright.sync_api import sync_playwright

    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shots = (
            ("report-emit", "emit", {"width": 1440, "height": 900}, "light", True),
            ("report-aviris-ng", "aviris-ng", {"width": 1440, "height": 900}, "light", False),
            ("report-phone", "aviris-ng", {"width": 390, "height": 844}, "dark", True),
        )
        for name, which, size, scheme, map_only in shots:
            if which not in pages:
                continue
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            page.goto(pages[which].as_uri())
            page.wait_for_selector("html[data-ready]")
            if not map_only:
                page.locator("#plume-A").scroll_into_view_if_needed()
                page.evaluate("document.getElementById('plume-A').scrollIntoView({block: 'start'})")
            page.wait_for_timeout(500)
            page.screenshot(path=out / f"{name}.png")
        browser.close()


def main() -> None:
    """Makes the reports and, if asked, their pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--only", choices=SHOWS)
    parser.add_argument("--coefficients", default=OWN)
    given = parser.parse_args()
    chosen = [given.only] if given.only else list(SHOWS)
    pages = {name: make_report(SHOWS[name], given.out, given.coefficients) for name in chosen}
    for page in pages.values():
        print(page)
    if given.pictures is not None:
        take_pictures(pages, given.pictures)


if __name__ == "__main__":
    main()
