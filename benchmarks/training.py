"""A training step beside the same network as operators are usually written: torch.fft, whole heads, plain layout.

    python benchmarks/training.py [--json FILE] [--rounds 5] [--recipe paper] [--threads 2]

At the paper's tile size (one 512 x 512 tile) and at that of the `cpu` recipe (eight of 128 x 128). Both contenders
share weights, batch and loss, must agree in their gradients, and take turns within one run. A step begins with
radiance: tiles are prepared within it, which a run does beside the step before. Memory is that of a step in a process
of its own. `step_speedup` is that of the paper's tile size.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from flame.models import BatchPreparer, Flame, RawTile
from flame.physics import sensor, unit_absorption
from flame.training.batches import TrainingBatch
from flame.training.losses import training_loss
from flame.training.recipes import Recipe, recipe
from plain_flame import PlainFlame
from side_by_side import extra_peak_mb, in_own_process, print_table, take_turns, write_json

BANDS = sensor("aviris-ng").bands.methane()


@dataclass(frozen=True)
class RandomTiles:
    """Tiles of noise with what is to be learned from them, prepared anew for every step as a run's reader does."""

    raw: tuple[RawTile, ...]
    label: Tensor
    teacher_ppm_m: Tensor
    preparer: BatchPreparer

    @classmethod
    def of(cls, chosen: Recipe, size: int, side: int) -> RandomTiles:
        rng = np.random.default_rng(1)
        raw = tuple(
            RawTile(
                rng.uniform(0.1, 1.1, (len(BANDS), side, side)).astype(np.float32),
                np.ones((side, side), dtype=np.bool_),
                rng.uniform(0.0, 5.0, (3, side, side)).astype(np.float32),
            )
            for _ in range(size)
        )
        torch.manual_seed(1)
        image = (size, side, side)
        preparer = BatchPreparer(chosen.model, BANDS, torch.get_num_threads())
        return cls(raw, torch.rand(image) < 0.004, 1000 * torch.rand(image), preparer)

    def batch(self) -> TrainingBatch:
        prepared = self.preparer.prepare(self.raw)
        return TrainingBatch(prepared.inputs, self.label, prepared.usable, self.teacher_ppm_m, None)


def make_step(model: nn.Module, chosen: Recipe, make_batch: Callable[[], TrainingBatch]) -> Callable[[], float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)

    def step() -> float:
        batch = make_batch()
        output = model(batch.inputs)
        loss = training_loss(output, batch, chosen.model, chosen.loss, 0).total
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.detach())

    return step


def contenders(chosen: Recipe) -> dict[str, nn.Module]:
    torch.manual_seed(0)
    flame = Flame(chosen.model, unit_absorption(BANDS)).train()
    return {"torch.fft, whole heads": PlainFlame(flame).train(), "flame": flame}


def check_agreement(models: dict[str, nn.Module], chosen: Recipe, batch: TrainingBatch) -> float:
    """Largest relative difference of a gradient, in double precision; ends the run if they are not the same network."""
    plain, flame = (copy.deepcopy(model).double() for model in models.values())
    exact = replace(batch, inputs={name: tensor.double() for name, tensor in batch.inputs.items()})
    for model in (plain, flame):
        make_step(model, chosen, lambda: exact)()
    worst = 0.0
    for (name, ours), theirs in zip(flame.named_parameters(), plain.parameters(), strict=True):
        if ours.grad is not None and theirs.grad is not None:
            worst = max(worst, float((ours.grad - theirs.grad).norm() / theirs.grad.norm().clamp_min(1e-30)))
        if worst > 1e-6:
            raise SystemExit(f"the gradients of {name} differ by {worst:.1e}: not the same network")
    return worst


def compare(chosen: Recipe, tiles: int, side: int, rounds: int) -> dict[str, object]:
    """Times both in turns, prints a table and gives the figures."""
    models, made = contenders(chosen), RandomTiles.of(chosen, tiles, side)
    times = take_turns({name: make_step(model, chosen, made.batch) for name, model in models.items()}, rounds)
    passed = ["--tiles", str(tiles), "--side", str(side), "--recipe", chosen.name]
    memory = {name: in_own_process(Path(__file__), [*passed, "--memory", name]) for name in models}
    plain, ours = times.values()
    print_table(
        f"one training step, {tiles} tiles of {side} x {side} x 72, {torch.get_num_threads()} threads",
        ["", "best s", "median s", "peak MB"],
        [[name, f"{t.best:.3f}", f"{t.median:.3f}", f"{memory[name]:.0f}"] for name, t in times.items()],
    )
    print(f"step speedup {plain.best / ours.best:.2f}x, median {plain.median / ours.median:.2f}x")
    return {
        "step_speedup": plain.best / ours.best,
        "step_speedup_median": plain.median / ours.median,
        "seconds": {name: t.best for name, t in times.items()},
        "peak_mb": memory,
        "tiles": tiles,
        "side": side,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recipe", default="paper")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--tiles", type=int, default=0, help="tiles a batch; with --side, instead of the two cases")
    parser.add_argument("--side", type=int, default=0)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    chosen = recipe(given.recipe)
    if given.memory is not None:
        made = RandomTiles.of(chosen, given.tiles, given.side)
        step = make_step(contenders(chosen)[given.memory], chosen, made.batch)
        print(extra_peak_mb(step))
        return
    difference = check_agreement(contenders(chosen), chosen, RandomTiles.of(chosen, 2, 32).batch())
    print(f"the same network: gradients equal to {difference:.0e} in double precision")
    cases = [(given.tiles, given.side)] if given.side else [(1, 512), (8, 128)]
    figures = [compare(chosen, tiles, side, given.rounds) for tiles, side in cases]
    summary = {"gradient_difference": difference, "threads": given.threads, "recipe": chosen.name}
    write_json(given.json, summary | {"step_speedup": figures[0]["step_speedup"], "cases": figures})


if __name__ == "__main__":
    main()
