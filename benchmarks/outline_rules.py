"""Which threshold and core outlines should have: every pair of them on scenes that no table is made of.

    python benchmarks/outline_rules.py MODEL.onnx --real CHIP.npz --json OUT.json --markdown OUT.md

The ground is that of whole simulated scenes, with artefacts of the instrument, and real scenes with fresh plumes and
noise. Real scenes of the training should be judged by networks that were trained without them (`--model-of`): on ground
that it knows by heart a network is surer than elsewhere, and a core costs it nothing. The seed is not that of
`operating_points.py`. Three ways of drawing are tried: at the level that follows the scene's noise, at one that was
asked for, and visible outlines, opened, which are what flies.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from flame import open_scene
from flame.detection import DecisionRule
from flame.onboard import Asked, Detector, load_model
from flame.physics import sensor
from flame.scene import Scene
from flame.simulate import FreshTiles, NoisePool, PlumeSettings, make_plume_pool, preset, simulate_tile, tile_generator
from flame.training.real_ground import real_ground
from operating_points import FRESH, SIDE, Tally

THRESHOLDS = (0.15, 0.3, 0.35, 0.5)
CORES = (0.0, 1.8, 2.2, 2.4, 2.7, 3.0, 3.3, 4.0, 5.0)
LEVEL_PPM_M = 500.0
ASKED = {"scene": Asked(level="scene"), "500 ppm m": Asked(level=LEVEL_PPM_M), "visible": Asked(level="visible")}
FEWEST = {"scene": 5, "500 ppm m": 5, "visible": 1}


def scenes(given: argparse.Namespace) -> Iterator[tuple[str, str, Scene, np.ndarray, np.ndarray]]:
    """Kind of ground, its name, scene, true enhancement and an annotator's outline."""
    for kind, name, index in product(("wide", "permian"), given.sensor, range(given.tiles)):
        settings = preset(kind, size=SIDE, sensor_name=name)
        tile = simulate_tile(tile_generator(given.seed, index), settings, f"{kind}-{index}").tile
        assert tile.enhancement_ppm_m is not None
        yield f"whole scenes, {kind}", kind, tile.scene, tile.enhancement_ppm_m, tile.label
    rng = np.random.default_rng(given.seed)
    real = {path.stem: open_scene(path).methane() for path in given.real}
    plume = PlumeSettings(source_shares=(0.2, 0.64, 0.13, 0.03))
    pools = {px: make_plume_pool(rng, 20, SIDE, px, plume) for px in (5.0, 30.0, 60.0)}
    noise = NoisePool(rng, 1 << 26)
    for (label, scene), name in product(real.items(), given.sensor):
        own = real_ground({label: scene}, [name], SIDE, rng)[name]
        pool = pools[min(pools, key=lambda px: abs(px - sensor(name).pixel_m))]
        for index in range(given.tiles // 2):
            fresh = FreshTiles(tuple(own), pool, noise, FRESH).draw(
                np.random.default_rng((given.seed, index)), None, name
            )
            assert fresh.label is not None
            tile = Scene(fresh.radiance, fresh.bands, fresh.valid)
            yield "real", label, tile, fresh.enhancement_ppm_m, fresh.label


def main() -> None:
    """Tries all rules and prints what each is worth."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("model", type=Path)
    asked.add_argument("--real", type=Path, action="append", default=[])
    asked.add_argument(
        "--model-of", action="append", default=[], metavar="CHIP=ONNX", help="the model for one of the real scenes"
    )
    asked.add_argument("--sensor", action="append")
    asked.add_argument("--tiles", type=int, default=16, help="scenes for each ground and sensor")
    asked.add_argument("--seed", type=int, default=777)
    asked.add_argument("--json", type=Path)
    asked.add_argument("--markdown", type=Path)
    given = asked.parse_args()
    given.sensor = given.sensor or ["aviris-ng", "emit"]
    models = {name: Path(path) for name, path in (text.split("=", 1) for text in given.model_of)}
    detectors: dict[Path, dict[str, Detector]] = {}
    for path in (given.model, *models.values()):
        package = load_model(path)
        detectors[path] = {way: Detector(package, asked=how) for way, how in ASKED.items()}
    rules = {
        way: {
            f"{threshold:g} {core:g}": DecisionRule(threshold, way == "visible", core, FEWEST[way])
            for threshold, core in product(THRESHOLDS, CORES)
        }
        for way in FEWEST
    }
    tallies: dict[tuple[str, str], Tally] = {}
    for kind, name, scene, truth_ppm_m, visible in scenes(given):
        own = detectors[models.get(name, given.model)]
        found = {way: detector.run(scene) for way, detector in own.items()}
        level = found["scene"].level_ppm_m or np.inf
        smooth = gaussian_filter(truth_ppm_m, 0.5)
        outlines = {way: (smooth > at) & scene.valid for way, at in (("scene", level), ("500 ppm m", LEVEL_PPM_M))}
        for way, result in found.items():
            gas = (truth_ppm_m > 0.5 * (LEVEL_PPM_M if way == "500 ppm m" else level)) & scene.valid
            tally = tallies.setdefault((kind, way), Tally(rules[way]))
            tally.add(result, outlines.get(way, visible), scene.valid, True, gas)
    report = {f"{kind}; {way}": tally.summary() for (kind, way), tally in tallies.items()}
    text = page(report, given)
    print(text)
    if given.json:
        given.json.write_text(json.dumps({"seed": given.seed, "tiles": given.tiles, "rules": report}, indent=1) + "\n")
    if given.markdown:
        given.markdown.write_text(text)


def page(report: dict[str, dict[str, dict[str, float | None]]], given: argparse.Namespace) -> str:
    """Every rule on every ground."""
    judge = "networks that never saw it" if given.model_of else "the same network"
    text = (
        f"# Thresholds and cores\n\nMade by `benchmarks/outline_rules.py`, seed {given.seed}, {given.tiles} scenes of "
        f"{SIDE} x {SIDE} pixels for each simulated ground and sensor ({', '.join(given.sensor)}), "
        f"{given.tiles // 2} for each real one, judged by {judge}.\n"
    )
    for name, rows in report.items():
        text += f"\n## {name}\n\n| threshold | core | precision | recall | F1 | found | false in 10 Mpixel |\n"
        text += "|" + "---:|" * 7 + "\n"
        for row in rows.values():
            cells = [f"{row[key] or 0.0:.2f}" for key in ("precision", "recall", "f1")]
            cells += [f"{row['found']} of {row['outlines']}", f"{row['false_plumes_per_10_megapixels']:.0f}"]
            text += f"| {row['threshold']:g} | {row['core_sigmas']:g} | {' | '.join(cells)} |\n"
    return text


if __name__ == "__main__":
    main()
