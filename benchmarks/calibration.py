"""Is the noise-aware filter's sigma what it says, and its enhancement unbiased? On many grounds and noise levels.

    python benchmarks/calibration.py [--background CHIP.npz ...] [--json FILE] [--tiles 8]

Ground: simulated `wide` and `narrow` tiles, and chips of real land given with --background, whose own noise is smoothed
(tools/make_indian_pines_chip.py makes one). Sensor noise is added at its full, half and quarter strength. Over
plume-free ground the spread of estimate / sigma should be 1; with plumes of 1,000 to 8,000 ppm m put in by the true,
saturating transmittance (as much weaker as the noise is), the slope of the estimate against the truth should be 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.interpolate import PchipInterpolator

from flame.filters import noise_aware_fields
from flame.io import read_scene
from flame.physics import BandSet, noise_model, sensor, transmittance
from flame.scene import Scene
from flame.simulate import cut_background, preset, simulate_tile, tile_generator
from side_by_side import print_table, write_json

SENSORS = ("aviris-ng", "emit")
LEVELS = (1.0, 0.5, 0.25)
PEAKS_PPM_M = (1000.0, 2000.0, 4000.0, 8000.0)
BOUNDS = (0.9, 1.1)


@dataclass(frozen=True, eq=False)
class Ground:
    """Radiance without noise, and the strength of the sensor's noise in each band."""

    radiance: np.ndarray
    valid: np.ndarray
    bands: BandSet
    sensor_name: str
    noise_factor: np.ndarray

    def seen(self, enhancement_ppm_m: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
        """What the sensor reports behind a plume."""
        signal = self.radiance * transmittance(enhancement_ppm_m, self.bands).astype(np.float32)
        sigma = noise_model(self.sensor_name).sigma(signal, self.bands) * self.noise_factor[:, None, None]
        noisy = signal + np.float32(level) * sigma * rng.standard_normal(signal.shape, dtype=np.float32)
        return np.where(self.valid, noisy, 0).astype(np.float32)


def simulated(name: str, sensor_name: str, count: int) -> Iterator[Ground]:
    settings = preset(name, size=128, sensor_name=sensor_name)
    for index in range(count):
        tile = simulate_tile(tile_generator(71, index), settings, "calibration")
        scene = tile.tile.scene
        whole = noise_model(sensor_name).sigma(tile.background_radiance, scene.bands)
        factor = np.median((tile.noise_sigma / whole)[:, scene.valid], axis=1)
        yield Ground(tile.background_radiance, scene.valid, scene.bands, sensor_name, factor)


def real(scene: Scene, sensor_name: str, count: int) -> Iterator[Ground]:
    bands = sensor(sensor_name).bands.methane()
    scene = scene.methane()
    low, high = scene.bands.centres_nm[[0, -1]]
    spectra = PchipInterpolator(scene.bands.centres_nm, scene.radiance, axis=0)
    whole = replace(scene, radiance=spectra(np.clip(bands.centres_nm, low, high)).astype(np.float32), bands=bands)
    for index in range(count):
        part = cut_background(whole, tile_generator(72, index), min(scene.shape))
        yield Ground(part.radiance, part.valid, bands, sensor_name, np.ones(len(bands)))


def plume(shape: tuple[int, int], peak_ppm_m: float, rng: np.random.Generator) -> np.ndarray:
    """A long Gaussian puff somewhere in the tile."""
    row, col = np.mgrid[: shape[0], : shape[1]]
    middle = rng.uniform(0.25, 0.75, 2) * shape
    angle = rng.uniform(0, np.pi)
    along = (row - middle[0]) * np.cos(angle) + (col - middle[1]) * np.sin(angle)
    across = (col - middle[1]) * np.cos(angle) - (row - middle[0]) * np.sin(angle)
    field = peak_ppm_m * np.exp(-0.5 * ((along / 10.0) ** 2 + (across / 3.0) ** 2))
    return np.where(field > 0.01 * peak_ppm_m, field, 0.0)


def calibrate(grounds: list[Ground], level: float) -> dict[str, float]:
    ratios, truths, estimates, weights, strong = [], [], [], [], []
    for index, ground in enumerate(grounds):
        rng = np.random.default_rng([73, index])
        empty = noise_aware_fields(ground.seen(np.zeros(ground.valid.shape), level, rng), ground.bands, ground.valid)
        ratios.append((empty.enhancement_ppm_m / empty.sigma_ppm_m)[empty.usable])
        truth = plume(ground.valid.shape, level * PEAKS_PPM_M[index % len(PEAKS_PPM_M)], rng)
        found = noise_aware_fields(ground.seen(truth, level, rng), ground.bands, ground.valid)
        used = found.usable
        weight = 1 / np.square(found.sigma_ppm_m[used].astype(np.float64))
        truths.append(truth[used])
        estimates.append(found.enhancement_ppm_m[used].astype(np.float64))
        weights.append(weight / weight.sum())
        high = used & (truth > 0.5 * truth.max())
        strong.append(float(np.average(found.enhancement_ppm_m[high] / truth[high], weights=truth[high])))
    z = np.concatenate(ratios)
    t, e, w = (np.concatenate(parts) for parts in (truths, estimates, weights))
    w /= w.sum()
    covariance = w @ (t * e) - (w @ t) * (w @ e)
    return {
        "spread": float(z.std()),
        "robust_spread": float(1.4826 * np.median(np.abs(z - np.median(z)))),
        "slope": float(covariance / (w @ (t * t) - (w @ t) ** 2)),
        "ratio_at_the_core": float(np.median(strong)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--background", type=Path, nargs="*", default=[])
    parser.add_argument("--tiles", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for sensor_name in SENSORS:
        sets = {name: list(simulated(name, sensor_name, options.tiles)) for name in ("wide", "narrow")}
        for path in options.background:
            sets[path.stem] = list(real(read_scene(path), sensor_name, options.tiles))
        for name, grounds in sets.items():
            for level in LEVELS:
                figures[f"{name}, {sensor_name}, noise x {level:g}"] = calibrate(grounds, level)
    low, high = BOUNDS
    rows = []
    for name, found in figures.items():
        good = low <= found["spread"] <= high and low <= found["slope"] <= high
        rows.append([name, *(f"{value:.2f}" for value in found.values()), "" if good else "out of bounds"])
    header = ["ground", "spread", "robust", "slope", "core", ""]
    print_table("noise-aware-mf: estimate / sigma without plume, estimate / truth with", header, rows)
    write_json(options.json, dict(figures))


if __name__ == "__main__":
    main()
