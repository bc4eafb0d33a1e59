"""The classical filters beside the peers' on one simulated 512 x 512 x 72 tile: time, memory, and that they agree.

    python benchmarks/filters.py [--json FILE] [--full]

`acrwl1mf` of mag1c takes many seconds for its 30 iterations, so by default it runs 1 and 3 of them, and the others are
added at the measured cost of one; `--full` runs all 30. It gets its data as it wants them, (pixel, band) in float64 as
by default and in float32, and that conversion is not timed.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flame.filters import FILTERS, Mag1cSettings
from flame.filters.mag1c import score as mag1c_score
from flame.physics import BandSet, sensor, unit_absorption
from side_by_side import Timing, extra_peak_mb, in_own_process, print_table, take_turns, write_json

ITERATIONS = 30
BANDS: BandSet = sensor("aviris-ng").bands.methane()


def simulated(size: int, seed: int) -> np.ndarray:
    from flame.simulate import preset, simulate_tile

    scene = simulate_tile(np.random.default_rng(seed), preset("narrow", size=size), "benchmark").tile.scene
    if not scene.valid.all():
        raise SystemExit("this seed gives a tile with invalid pixels, which the peers mark differently; take another")
    return scene.radiance


def peer_mag1c(radiance: np.ndarray, iterations: int, dtype: str) -> Callable[[], np.ndarray]:
    import torch
    from mag1c.mag1c import acrwl1mf

    # torch has deprecated the name that mag1c calls; the function is the same.
    torch.cholesky = lambda a, upper=False: torch.linalg.cholesky(a, upper=upper)
    spectra = torch.tensor(np.ascontiguousarray(radiance.reshape(len(BANDS), -1).T)[None].astype(dtype))
    template = torch.tensor(np.array(unit_absorption(BANDS)).astype(dtype))
    everything = torch.ones(spectra.shape[:2], dtype=torch.bool)
    return lambda: acrwl1mf(spectra, template, iterations, False, False, False, 1.0, 0.0, everything)[0].numpy()


def peer_sas(radiance: np.ndarray) -> Callable[[], np.ndarray]:
    from onboard_methane_detection import mag1c_sas

    return lambda: mag1c_sas(radiance, np.array(unit_absorption(BANDS)))


def ours(name: str, radiance: np.ndarray) -> Callable[[], np.ndarray]:
    valid = np.ones(radiance.shape[1:], dtype=np.bool_)
    return lambda: FILTERS[name].score(radiance, BANDS, valid)


def contender(name: str, radiance: np.ndarray) -> Callable[[], np.ndarray]:
    """A contender by the name it has in the memory table."""
    if name.startswith("acrwl1mf"):
        return peer_mag1c(radiance, 1, name.split()[-1])
    return peer_sas(radiance) if name.startswith("onboard") else ours(name, radiance)


def scaled_up(one: Timing, three: Timing, iterations: int) -> float:
    """Seconds for all iterations from the best runs of one and of three."""
    return one.best + (iterations - 1) * (three.best - one.best) / 2


def agreement(ours_map: np.ndarray, theirs: np.ndarray) -> str:
    theirs = theirs.reshape(ours_map.shape)
    plume = theirs > 100
    difference = np.median(np.abs(ours_map - theirs)[plume] / theirs[plume])
    return f"correlation {np.corrcoef(ours_map.ravel(), theirs.ravel())[0, 1]:.7f}, median difference {difference:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="run all 30 iterations of acrwl1mf instead of scaling up")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--memory-of", nargs=2, metavar=("NAME", "TILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.memory_of:
        run = contender(options.memory_of[0], np.load(options.memory_of[1]))
        print(extra_peak_mb(run))
        return

    radiance = simulated(options.size, options.seed)
    steps = (ITERATIONS,) if options.full else (1, 3)
    runs: dict[str, Callable[[], np.ndarray]] = {name: ours(name, radiance) for name in FILTERS}
    runs["onboard-methane-detection"] = peer_sas(radiance)
    for dtype in ("float64", "float32"):
        runs |= {f"acrwl1mf {dtype} {k}": peer_mag1c(radiance, k, dtype) for k in steps}
    times = take_turns(runs, options.rounds, warm_up=not options.full)
    for dtype in ("float64", "float32"):
        name = f"acrwl1mf {dtype}"
        parts = [times.pop(f"{name} {k}") for k in steps]
        times[name] = parts[0] if options.full else Timing((scaled_up(parts[0], parts[1], ITERATIONS),))

    with tempfile.TemporaryDirectory() as folder:
        tile = Path(folder) / "tile.npy"
        np.save(tile, radiance)
        memory = {name: in_own_process(Path(__file__), ["--memory-of", name, str(tile)]) for name in times}

    rivals = {"mag1c": "acrwl1mf float64", "mag1c-sas": "onboard-methane-detection"}
    rows = []
    for name, timing in times.items():
        rival = rivals.get(name)
        ratio = f"{times[rival].best / timing.best:.0f}x faster than {rival}" if rival else ""
        rows.append([name, f"{1e3 * timing.best:.0f}", f"{1e3 * timing.median:.0f}", f"{memory[name]:.0f}", ratio])
    shape = "x".join(str(n) for n in (*radiance.shape[1:], radiance.shape[0]))
    print_table(
        f"{shape} tile, {options.rounds} rounds in turns", ["filter", "best ms", "median ms", "extra MB", ""], rows
    )
    if not options.full:
        print(f"acrwl1mf: scaled up to {ITERATIONS} iterations from runs of 1 and 3")

    valid = np.ones(radiance.shape[1:], dtype=np.bool_)
    same = mag1c_score(radiance, BANDS, valid, Mag1cSettings(iterations=steps[-1]))
    print(f"mag1c against acrwl1mf, {steps[-1]} iterations: {agreement(same, runs[f'acrwl1mf float64 {steps[-1]}']())}")
    print(f"mag1c-sas against the peer: {agreement(runs['mag1c-sas'](), runs['onboard-methane-detection']())}")

    figures: dict[str, object] = {
        "tile": shape,
        "rounds": options.rounds,
        "acrwl1mf_scaled_up_from_iterations": None if options.full else list(steps),
        "mag1c_tile_speedup": times["acrwl1mf float64"].best / times["mag1c"].best,
        "mag1c_tile_speedup_over_float32": times["acrwl1mf float32"].best / times["mag1c"].best,
        "mag1c_sas_speedup": times["onboard-methane-detection"].best / times["mag1c-sas"].best,
        "noise_aware_over_mag1c_sas": times["noise-aware-mf"].best / times["mag1c-sas"].best,
        "seconds": {name: timing.best for name, timing in times.items()},
        "extra_peak_mb": memory,
    }
    for key in (
        *("mag1c_tile_speedup", "mag1c_tile_speedup_over_float32", "mag1c_sas_speedup", "noise_aware_over_mag1c_sas"),
    ):
        print(f"{key}: {figures[key]:.1f}")
    write_json(options.json, figures)


if __name__ == "__main__":
    main()
