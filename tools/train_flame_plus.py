"""Trains the second flame-plus: simulated ground drawn from a seed, real plume-free scenes beside it if given.

    python tools/train_flame_plus.py runs/plus --minutes 60 --real CHIP.npz --real OTHER.npz

A killed run goes on with the same command. Ground is kept beside the run (`ground.npz`) and made once.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from flame import open_scene
from flame.models.plus import PlusSettings
from flame.models.plus.weights import load_plus, save_plus
from flame.simulate import (
    NoisePool,
    PlumeSettings,
    draw_background,
    load_backgrounds,
    make_plume_pool,
    preset,
    save_backgrounds,
)  # fmt: skip
from flame.simulate.backgrounds import Background
from flame.training.fresh_run import FreshRunSettings, train_fresh
from flame.training.fresh_tiles import SENSOR_SHARES, FreshSource, SensorShare
from flame.training.real_ground import real_ground
from flame.workers import threads_each

SENSORS = ("aviris-ng", "emit", "enmap", "prisma", "tanager-1", "aviris-3")
GROUND_PX = 256


def draw_ground(seed: int, index: int) -> Background:
    """Simulated ground by its number."""
    rng = np.random.default_rng((seed, 77, index))
    return draw_background(rng, preset("wide", size=GROUND_PX), f"wide-{index}")


def draw_grounds(seed: int, count: int, workers: int) -> list[Background]:
    """Simulated grounds, each drawn on one core."""
    grounds = []
    with threads_each(1), ProcessPoolExecutor(workers, get_context("spawn")) as crew:
        for ground in crew.map(partial(draw_ground, seed), range(count)):
            grounds.append(ground)
            print(f"ground {len(grounds)} of {count}", flush=True)
    return grounds


def main() -> None:
    """Reads the command line and trains."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--minutes", type=float, default=60.0)
    asked.add_argument("--steps", type=int, default=0, help="train so many steps instead of some minutes")
    asked.add_argument("--real", type=Path, action="append", default=[], help="a plume-free scene; repeat it")
    asked.add_argument("--ground", type=int, default=160, help="simulated grounds")
    asked.add_argument("--ground-file", type=Path, help="where they are kept; beside the run unless given")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--start", type=Path, help="a trained network to go on from")
    asked.add_argument("--hide-functions", action="store_true", help="go on without its functions of wavelength")
    asked.add_argument("--methane-like", type=float, default=0.0, help="share of foreign curves like methane's")
    asked.add_argument("--own-noise", type=float, default=0.0, help="share of grounds with noise of their own")
    asked.add_argument("--donors", type=float, default=0.0, help="share of grounds in the spectra of another")
    asked.add_argument("--views", type=int, default=2, help="steps that each tile is used in, turned or mirrored")
    asked.add_argument("--rate", type=float, default=2e-3, help="learning rate at the start")
    asked.add_argument("--sensor", action="append", default=[], help="train on tiles of this sensor alone; repeat it")
    asked.add_argument("--fixed-bands", action="store_true", help="weights for bands, not wavelengths; one sensor")
    asked.add_argument("--functions", type=int, default=0, help="learned functions of wavelength; 16 were tried")
    asked.add_argument("--no-fields", action="store_true")
    asked.add_argument("--no-score", action="store_true")
    asked.add_argument("--width", type=int, default=16)
    asked.add_argument("--hidden", type=int, default=16, help="channels inside the segmentation head")
    asked.add_argument("--backbone", default="unet")
    asked.add_argument("--real-share", type=float, default=0.3, help="share of tiles on the real scenes")
    asked.add_argument("--large-share", type=float, default=0.0, help="last share of the run with tiles twice as large")
    asked.add_argument("--bfloat16", action="store_true", help="half the digits in products: faster with AVX-512 BF16")
    asked.add_argument("--workers", type=int, default=2, help="processes that draw tiles")
    asked.add_argument("--threads", type=int, default=2, help="threads that the network is trained on")
    given = asked.parse_args()
    if given.fixed_bands and len(given.sensor) != 1:
        asked.error("--fixed-bands needs one --sensor")
    given.folder.mkdir(parents=True, exist_ok=True)
    kept = given.ground_file or given.folder / "ground.npz"
    if not kept.is_file():
        save_backgrounds(kept, draw_grounds(given.seed, given.ground, given.workers))
    rng = np.random.default_rng((given.seed, 78))
    scenes = {path.stem: open_scene(path).methane() for path in given.real}
    plume = PlumeSettings(source_shares=(0.25, 0.55, 0.15, 0.05))
    source = FreshSource(
        simulated=load_backgrounds(kept),
        real=real_ground(scenes, SENSORS, GROUND_PX, rng) if scenes else {},
        plumes=[make_plume_pool(rng, 80, GROUND_PX, pixel_m, plume) for pixel_m in (5.0, 30.0, 60.0)],
        noise=NoisePool(rng, 1 << 26),
        real_share=given.real_share,
        sensors=[SensorShare(name, 1.0) for name in given.sensor] or SENSOR_SHARES,
        fixed_bands=given.fixed_bands,
        donor_chance=given.donors,
    )
    settings = PlusSettings(
        functions=given.functions,
        fields=not given.no_fields,
        score=not given.no_score,
        width=given.width,
        backbone=given.backbone,
        hidden=given.hidden,
    )
    run = FreshRunSettings(
        minutes=given.minutes,
        steps=given.steps,
        rate=given.rate,
        workers=given.workers,
        threads=given.threads,
        large_share=given.large_share,
        views=given.views,
        bfloat16=given.bfloat16,
    )
    source = source.with_methane_like(given.methane_like).with_own_noise(given.own_noise)
    start = given.start
    if start is not None and given.hide_functions:
        stored, start = load_plus(start), given.folder / "start.safetensors"
        hidden = stored.model.without_functions()
        save_plus(start, hidden.settings, hidden.state_dict(), dict(stored.facts))
    facts = {"real": sorted(scenes), "seed": given.seed, "sensors": given.sensor, "fixed_bands": given.fixed_bands}
    facts |= {"methane_like": given.methane_like, "own_noise": given.own_noise, "donors": given.donors}
    facts |= {"functions_hidden": given.hide_functions}
    train_fresh(given.folder, source, settings, run, given.seed, facts, start)


if __name__ == "__main__":
    main()
