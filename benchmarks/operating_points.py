"""What a packaged model's sensitivities are worth: precision, recall, plumes found, false plumes, and its calibration.

    python benchmarks/operating_points.py MODEL.onnx --real CHIP.npz --json OUT.json --plot reliability.png

Plumes and noise are drawn afresh on unseen simulated ground and on real scenes that were not trained on; half of the
tiles have no plume at all. Labels are true levels, among them the one that follows the scene's noise, the default, and
an annotator's outlines ("visible"), which streams of lines draw.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, label

from flame import open_scene
from flame.detection import DecisionRule, PixelCounts, plume_mask
from flame.detection.reliability import Reliability
from flame.onboard import Asked, Detection, Detector, Manifest, ModelPackage, load_model
from flame.physics import sensor
from flame.scene import Scene
from flame.simulate import (
    FreshSettings,
    FreshTiles,
    NoisePool,
    PlumePool,
    PlumeSettings,
    Range,
    draw_background,
    make_plume_pool,
    preset,
    simulate_tile,
    tile_generator,
)
from flame.simulate.backgrounds import Background
from flame.training.real_ground import real_ground

LEVELS_PPM_M = (250.0, 500.0, 1000.0)
SIDE = 256
FRESH = FreshSettings(
    plume_snr=Range(1.0, 15.0, log=True), plume_follows_noise=False, noise_scale=Range(0.25, 1.5, log=True)
)
"""How fresh tiles are drawn."""
TITLES = {"real": "real ground", "wide": "simulated, wide", "permian": "simulated, permian"}
NAMES: dict[float | str, str] = {"scene": "the scene's level", "visible": "visible outline"}
NAMES |= {level: f"{level:g} ppm m" for level in LEVELS_PPM_M}
_EIGHT = np.ones((3, 3), np.bool_)
_FEWEST_PIXELS = 5


def grounds(given: argparse.Namespace) -> dict[str, dict[str, list[Background]]]:
    """Ground by kind and sensor."""
    rng = np.random.default_rng(given.seed)
    scenes = {path.stem: open_scene(path).methane() for path in given.real}
    found: dict[str, dict[str, list[Background]]] = (
        {"real": real_ground(scenes, given.sensor, SIDE, rng)} if scenes else {}
    )
    for kind in ("wide", "permian"):
        found[kind] = {
            name: [
                draw_background(np.random.default_rng((given.seed, i)), preset(kind, size=SIDE, sensor_name=name), kind)
                for i in range(given.ground)
            ]
            for name in given.sensor
        }
    return found


def plumes_found(mask: np.ndarray, outline: np.ndarray) -> tuple[int, int, int]:
    """Outlines of some size, those of which something was found, and found plumes that touch no outline."""
    drawn, _ = label(outline, structure=_EIGHT)
    large = np.bincount(drawn.ravel()) >= _FEWEST_PIXELS
    large[0] = False
    seen, plumes = label(mask, structure=_EIGHT)
    hit = np.unique(drawn[mask & outline])
    touching = np.unique(seen[mask & outline])
    return int(large.sum()), int(large[hit].sum()), plumes - int((touching > 0).sum())


class Tally:
    """What one way of drawing outlines is worth at each sensitivity.

    Args:
        rules: How probabilities become masks, by sensitivity.
    """

    @classmethod
    def both(cls, manifest: Manifest) -> dict[str, Tally]:
        """One for outlines that follow the scene, and one for visible ones."""
        assert manifest.plane_facts is not None, "this needs a network of planes"
        names = manifest.plane_facts.sensitivities
        asked = {"scene": Asked(), "visible": Asked(level="visible")}
        return {
            way: cls({n: replace(each, sensitivity=n).rule(manifest) for n in names}) for way, each in asked.items()
        }

    def __init__(self, rules: dict[str, DecisionRule]) -> None:
        self._rules = rules
        self._counts = {name: PixelCounts() for name in rules}
        self._found = {name: np.zeros(2, int) for name in rules}
        self._false, self._empty_px = dict.fromkeys(rules, 0), 0

    def add(
        self, result: Detection, outline: np.ndarray, valid: np.ndarray, empty: bool, gas: np.ndarray | None = None
    ) -> None:
        """A tile with the outlines of the truth.

        False plumes are counted where there is no methane at all, or, where gas is known, those that touch none of it.
        """
        for name, rule in self._rules.items():
            mask = plume_mask(result.probability, result.usable, rule, result.core_sigmas)
            self._counts[name] += PixelCounts.of(mask, outline, valid)
            *found, false = plumes_found(mask, outline)
            if gas is not None:
                false = plumes_found(mask, gas)[2]
            self._found[name] += found
            self._false[name] += false if empty else 0
        self._empty_px += int(valid.sum()) if empty else 0

    def summary(self) -> dict[str, dict[str, float | None]]:
        """By sensitivity."""
        return {
            name: {
                "threshold": rule.threshold,
                "core_sigmas": rule.core_sigmas,
                **{k: v for k, v in self._counts[name].summary().items() if k in ("precision", "recall", "f1")},
                "outlines": int(self._found[name][0]),
                "found": int(self._found[name][1]),
                "false_plumes_per_10_megapixels": 1e7 * self._false[name] / max(1, self._empty_px),
                "pixels": self._empty_px,
            }
            for name, rule in self._rules.items()
        }


def main() -> None:
    """Measures and prints."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("model", type=Path)
    asked.add_argument("--real", type=Path, action="append", default=[])
    asked.add_argument("--sensor", action="append")
    asked.add_argument("--tiles", type=int, default=16, help="tiles for each ground and sensor")
    asked.add_argument("--ground", type=int, default=6)
    asked.add_argument("--seed", type=int, default=900)
    asked.add_argument("--json", type=Path)
    asked.add_argument("--plot", type=Path)
    given = asked.parse_args()
    given.sensor = given.sensor or ["aviris-ng", "emit"]
    package = load_model(given.model)
    rng = np.random.default_rng(given.seed)
    plume = PlumeSettings(source_shares=(0.0, 0.8, 0.16, 0.04))
    pools = {px: make_plume_pool(rng, 30, SIDE, px, plume) for px in (5.0, 30.0, 60.0)}
    noise = NoisePool(rng, 1 << 26)
    report: dict[str, object] = {"tiles": given.tiles, "seed": given.seed}
    curves: dict[str, dict[str, Reliability]] = {}
    for kind, by_sensor in grounds(given).items():
        tallies = Tally.both(package.manifest)
        tables = {level: Reliability() for level in ("scene", "visible", *LEVELS_PPM_M)}
        for name, own in by_sensor.items():
            pool = pools[min(pools, key=lambda px: abs(px - sensor(name).pixel_m))]
            detectors = {level: Detector(package, asked=Asked(level=level)) for level in tables}
            bands = None if kind == "real" else sensor(name).bands.methane()
            for index in range(given.tiles):
                own_rng = np.random.default_rng((given.seed, index))
                empty = index % 2 == 1
                drawn_pool = no_plumes(pool) if empty else pool
                tile = FreshTiles(tuple(own), drawn_pool, noise, FRESH).draw(own_rng, bands, name)
                scene = Scene(tile.radiance, tile.bands, tile.valid)
                visible = tile.label if tile.label is not None else np.zeros(tile.valid.shape, np.bool_)
                smooth = gaussian_filter(tile.enhancement_ppm_m, 0.5)
                for level, detector in detectors.items():
                    result = detector.run(scene)
                    outline = visible if level == "visible" else smooth > (result.level_ppm_m or np.inf)
                    tables[level].add(result.probability, outline, result.usable)
                    if level in tallies:
                        tallies[level].add(result, outline & tile.valid, tile.valid, empty)
        report[kind] = {
            "sensitivities": tallies["scene"].summary(),
            "visible": tallies["visible"].summary(),
            "calibration_error": {str(level): table.error for level, table in tables.items()},
        }
        curves[TITLES[kind]] = {NAMES[level]: table for level, table in tables.items()}
        print(json.dumps({kind: report[kind]}, indent=1), flush=True)
    report["whole_scenes"] = whole_scenes(package, given)
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    if given.plot:
        draw(curves, given.plot)


def whole_scenes(package: ModelPackage, given: argparse.Namespace) -> dict[str, object]:
    """Tiles of the simulator as they are, with its own plumes, confusers, artefacts of the instrument and noise.

    Their ground is harder than the kept backgrounds of fresh tiles. A plume is false if it touches no gas of half the
    outline's level.
    """
    detectors = {way: Detector(package, asked=Asked(level=way)) for way in ("scene", "visible")}
    report: dict[str, object] = {}
    for kind in ("wide", "permian"):
        tallies = Tally.both(package.manifest)
        for name in given.sensor:
            for index in range(given.tiles):
                settings = preset(kind, size=SIDE, sensor_name=name)
                tile = simulate_tile(tile_generator(given.seed, index), settings, f"{kind}-{index}").tile
                results = {way: detector.run(tile.scene) for way, detector in detectors.items()}
                level = results["scene"].level_ppm_m or np.inf
                assert tile.enhancement_ppm_m is not None
                gas = (tile.enhancement_ppm_m > 0.5 * level) & tile.scene.valid
                truth = (gaussian_filter(tile.enhancement_ppm_m, 0.5) > level) & tile.scene.valid
                for way, outline in (("scene", truth), ("visible", tile.label)):
                    tallies[way].add(results[way], outline, tile.scene.valid, True, gas)
        report[kind] = {way: tally.summary() for way, tally in tallies.items()}
        print(json.dumps({f"whole scenes, {kind}": report[kind]}, indent=1), flush=True)
    return report


def no_plumes(pool: PlumePool) -> PlumePool:
    """The same pool, of which no plume is drawn."""
    return replace(pool, settings=replace(pool.settings, source_shares=(1.0,)))


def draw(curves: dict[str, dict[str, Reliability]], path: Path) -> None:
    """The reliability diagram: a panel for each kind of ground, a line for each outline that can be asked for."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(curves), figsize=(1.5 + 4 * len(curves), 4.5), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, (title, tables) in zip(panels[0], curves.items(), strict=True):
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        for name, table in tables.items():
            axes.plot(*table.curve(), marker=".", linewidth=1, label=f"{name}: error {table.error:.3f}")
        axes.set(title=title, xlabel="probability said", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.legend(fontsize=8, loc="upper left")
    panels[0, 0].set_ylabel("share that was plume")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
