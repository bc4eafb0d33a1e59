"""A training step beside the same network as operators are usually written: torch.fft, whole heads, plain layout.

    python benchmarks/training.py [--json FILE] [--rounds 5] [--recipe paper] [--threads 2]

At the paper's tile size (one 512 x 512 tile) and at that of the `cpu` recipe (eight of 128 x 128). Both contenders
share weights, batch and loss, must agree in their gradients, and take turns within one run. Memory is that of a step in
a process of its own. `step_speedup` is that of the paper's tile size.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
from fft_reference import fft_spectral

from flame.models import Flame, FlameOutput
from flame.models.backbones.ufno import MiniUNet, OperatorBlock
from flame.models.flame import Conditioned
from flame.models.heads import leaky_clamp
from flame.physics import sensor, unit_absorption
from flame.training.batches import TrainingBatch
from flame.training.losses import training_loss
from flame.training.recipes import Recipe, recipe
from side_by_side import extra_peak_mb, in_own_process, print_table, take_turns, write_json


class PlainFlame(nn.Module):
    """The weights of a `Flame`, run as the paper's equations read."""

    def __init__(self, flame: Flame) -> None:
        super().__init__()
        self.flame = copy.deepcopy(flame)

    def block(self, block: OperatorBlock, field: Tensor) -> Tensor:
        mixed = fft_spectral(block.spectral, field) + block.pointwise(field)
        if block.unet is not None:
            mixed = mixed + self.local(block.unet, field)
        return block.gate(F.gelu(mixed))

    def local(self, unet: MiniUNet, field: Tensor) -> Tensor:
        half = unet.down1(field)
        quarter = unet.down2(half)
        quarter = torch.cat([quarter, unet.up3(unet.down3(quarter))], 1)
        half = torch.cat([half, unet.up2(quarter)], 1)
        return unet.out(torch.cat([field, unet.up1(half)], 1))

    def score(self, inputs: Conditioned, z: Tensor) -> Tensor:
        heads = self.flame.heads
        background = F.conv2d(z, heads.w_bg[:, :, None, None], heads.b_bg)
        weight = F.softplus(F.conv2d(z, heads.w_sw[:, :, None, None], heads.b_sw))
        return ((inputs.scored - background) * weight * inputs.direction[:, :, None, None]).sum(1)

    def forward(self, radiance: Tensor, rgb: Tensor, valid: Tensor) -> FlameOutput:
        flame = self.flame
        inputs = flame.condition(radiance, rgb, valid)
        z = flame.lifted(inputs)
        for block in flame.backbone.blocks:
            z = self.block(block, z)
        score_ppm_m = self.score(inputs, z)
        score = leaky_clamp(score_ppm_m / flame.settings.tau_ppm_m, flame.settings.tau_max, flame.settings.clamp_leak)
        head = flame.segmentation
        logit = head.project(head.layers(torch.cat([z, score[:, None], inputs.rgb], 1)))[:, 0]
        return FlameOutput(logit, score, score_ppm_m)


def random_batch(size: int, side: int) -> TrainingBatch:
    torch.manual_seed(1)
    image = (size, side, side)
    return TrainingBatch(
        radiance=torch.rand(size, 72, side, side) + 0.1,
        rgb=5 * torch.rand(size, 3, side, side),
        label=torch.rand(image) < 0.004,
        valid=torch.ones(image, dtype=torch.bool),
        teacher_ppm_m=1000 * torch.rand(image),
        enhancement_ppm_m=None,
    )


def make_step(model: nn.Module, chosen: Recipe, batch: TrainingBatch) -> Callable[[], float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)

    def step() -> float:
        output = model(batch.radiance, batch.rgb, batch.valid)
        loss = training_loss(output, batch, chosen.model, chosen.loss, 0).total
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.detach())

    return step


def contenders(chosen: Recipe) -> dict[str, nn.Module]:
    torch.manual_seed(0)
    flame = Flame(chosen.model, unit_absorption(sensor("aviris-ng").bands.methane())).train()
    return {"torch.fft, whole heads": PlainFlame(flame).train(), "flame": flame}


def check_agreement(models: dict[str, nn.Module], chosen: Recipe, batch: TrainingBatch) -> float:
    """Largest relative difference of a gradient, in double precision; ends the run if they are not the same network."""
    plain, flame = (copy.deepcopy(model).double() for model in models.values())
    layers = vars(batch).items()
    batch = TrainingBatch(**{k: v.double() if v is not None and v.is_floating_point() else v for k, v in layers})
    for model in (plain, flame):
        make_step(model, chosen, batch)()
    worst = 0.0
    for (name, ours), theirs in zip(flame.named_parameters(), plain.parameters(), strict=True):
        if ours.grad is not None and theirs.grad is not None:
            worst = max(worst, float((ours.grad - theirs.grad).norm() / theirs.grad.norm().clamp_min(1e-30)))
        if worst > 1e-6:
            raise SystemExit(f"the gradients of {name} differ by {worst:.1e}: not the same network")
    return worst


def compare(chosen: Recipe, tiles: int, side: int, rounds: int) -> dict[str, object]:
    """Times both in turns, prints a table and gives the figures."""
    models, batch = contenders(chosen), random_batch(tiles, side)
    times = take_turns({name: make_step(model, chosen, batch) for name, model in models.items()}, rounds)
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
        step = make_step(contenders(chosen)[given.memory], chosen, random_batch(given.tiles, given.side))
        print(extra_peak_mb(step))
        return
    difference = check_agreement(contenders(chosen), chosen, random_batch(2, 32))
    print(f"the same network: gradients equal to {difference:.0e} in double precision")
    cases = [(given.tiles, given.side)] if given.side else [(1, 512), (8, 128)]
    figures = [compare(chosen, tiles, side, given.rounds) for tiles, side in cases]
    summary = {"gradient_difference": difference, "threads": given.threads, "recipe": chosen.name}
    write_json(given.json, summary | {"step_speedup": figures[0]["step_speedup"], "cases": figures})


if __name__ == "__main__":
    main()
