"""Trains the second flame-plus on fresh tiles for a given time; a killed run goes on where it was."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Empty

import numpy as np
import torch
import torch.multiprocessing as processes
import torch.nn.functional as F
from jaxtyping import Float64
from threadpoolctl import threadpool_limits
from torch import Tensor

from flame.errors import FlameError
from flame.models.plus import LEVELS_PPM_M, FlamePlus, PlaneBatch, PlusOutput, PlusSettings
from flame.models.plus.network import compressed
from flame.models.plus.weights import FILE, load_plus, save_plus
from flame.prepare.planes import GRID_NM
from flame.training.fresh_tiles import FreshBatch, FreshSource, draw_batch
from flame.training.precision import shield_from_amx

__all__ = ["FreshRunSettings", "PlusLosses", "learn_conditioning", "planes_of", "plus_loss", "train_fresh"]

CHECKPOINT = "checkpoint.pt"
_PATIENCE_S = 5.0
_SQRT_PI = math.sqrt(math.pi)
_LEVEL_WEIGHTS = (0.3, 0.4, 0.5, 0.6, 0.8, 1.1, 1.6, 2.7)
"""How much each level counts: about one over the root of how often it is exceeded, or nobody would learn strong gas."""


@dataclass(frozen=True)
class FreshRunSettings:
    """How a run goes.

    Attributes:
        minutes: How long it trains in all; the learning rate falls with the time.
        steps: How many steps it trains in place of a time, for runs that are to be compared; 0: by the time.
        rate: Learning rate at the start.
        warmup_steps: Steps until it is reached.
        averaging: Decay of the average of the weights that is kept.
        views: Steps that each tile is used in, turned or mirrored in all but the first.
        tiles: Tiles in one batch of one sensor.
        batches: Batches in one step.
        size: Rows and columns of a tile.
        spectral_dropout: Share of the tiles whose spectral functions are hidden from the network in a step, so that it
            does not learn grounds by heart.
        large_share: Share of the run, its end, in which tiles are twice as large and half as many.
        bfloat16: Whether the products of a step have half the digits: less time on processors that compute with
            them (AVX-512 BF16). Weights, sums and losses are of full precision.
        workers: Processes that draw tiles.
        threads: Threads that the network is trained on.
        checkpoint_minutes: Time between checkpoints.
    """

    minutes: float = 60.0
    steps: int = 0
    rate: float = 2e-3
    warmup_steps: int = 50
    averaging: float = 0.999
    views: int = 2
    tiles: int = 4
    batches: int = 2
    size: int = 128
    spectral_dropout: float = 0.25
    large_share: float = 0.0
    bfloat16: bool = False
    workers: int = 2
    threads: int = 2
    checkpoint_minutes: float = 3.0


@dataclass(frozen=True, eq=False)
class PlusLosses:
    """The objective and its parts."""

    total: Tensor
    levels: Tensor
    outline: Tensor
    enhancement: Tensor
    score: Tensor


def planes_of(model: FlamePlus, batch: FreshBatch, hidden: float = 0.0) -> PlaneBatch:
    """A batch as the network takes it, the spectral functions of a share of its tiles hidden."""
    spectral = model.spectral(batch.spectra) if model.settings.functions else batch.fields[:, :0]
    if hidden > 0:
        spectral = spectral * (torch.rand(len(spectral), 1, 1, 1) >= hidden)
    return PlaneBatch(
        spectral,
        *(batch.fields, batch.windows, batch.estimate_ppm_m, batch.sigma_ppm_m),
    )


def _mean(values: Tensor, where: Tensor) -> Tensor:
    return (values * where).sum() / where.sum().clamp_min(1)


def plus_loss(out: PlusOutput, batch: FreshBatch) -> PlusLosses:
    """Cross-entropy of levels and outline, CRPS of the enhancement, and the score's distance from the truth.

    All but the last are proper scores: their minimum is the true probability. Plume and ground count alike in the last,
    which holds the score to a retrieval.
    """
    seen = batch.usable
    levels = torch.tensor(LEVELS_PPM_M)[None, :, None, None]
    above = (batch.smooth_ppm_m[:, None] > levels).float()
    each = F.binary_cross_entropy_with_logits(out.level_logits, above, reduction="none")
    by_level = (each * torch.tensor(_LEVEL_WEIGHTS)[None, :, None, None]).mean(1)
    outline = F.binary_cross_entropy_with_logits(out.outline_logit, batch.outline.float(), reduction="none")
    truth = compressed(batch.enhancement_ppm_m / batch.sigma_ppm_m)
    spread = out.log_spread.exp()
    z = (truth - out.median) / spread
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2.0 * math.pi)
    crps = spread * (z * torch.erf(z / math.sqrt(2.0)) + 2.0 * density - 1.0 / _SQRT_PI)
    miss = (compressed(out.score_sigma) - truth).abs()
    plume = seen & (batch.enhancement_ppm_m > 0.5 * batch.sigma_ppm_m)
    score = 0.5 * (_mean(miss, plume) + _mean(miss, seen & ~plume))
    parts = (_mean(by_level, batch.valid), _mean(outline, batch.valid), _mean(crps, seen), score)
    total = 4.0 * parts[0] + parts[1] + 0.5 * parts[2] + 0.05 * parts[3]
    return PlusLosses(total, *parts)


def learn_conditioning(
    rng: np.random.Generator, source: FreshSource, size: int, batches: int = 40, floor: float = 1e-5
) -> Float64[np.ndarray, "cell cell"]:
    """The matrix after which spectra on the wavelength grid have unit variance in every direction.

    Directions of less than `floor` times the variance of the strongest are not raised further: they are noise.
    """
    total = np.zeros((len(GRID_NM), len(GRID_NM)))
    for _ in range(batches):
        batch = draw_batch(rng, source, size, 2)
        spectra, weights = batch.spectra.residual, batch.spectra.weights
        chosen = spectra.transpose(0, 1).flatten(1)[:, batch.usable.flatten()][:, ::37].double()
        on_grid = (weights.double() @ chosen).numpy()
        total += on_grid @ on_grid.T / max(1, on_grid.shape[1])
    values, vectors = np.linalg.eigh(total / batches)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 0) + floor * values[-1])) @ vectors.T)


def _draw_for_ever(
    number: int, source: FreshSource, seed: int, first: int, run: FreshRunSettings, large: object, out: object
) -> None:
    """A worker: batches by their numbers, so that no two workers and no resumed run draw the same.

    It takes one core: small products on two threads of a busy machine wait for each other most of the time.
    """
    torch.set_num_threads(1)
    threadpool_limits(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    index = first + number
    while True:
        bigger = bool(large.value)  # type: ignore[attr-defined]
        rng = np.random.default_rng((seed, index))
        size, tiles = (min(2 * run.size, source.largest), max(1, run.tiles // 2)) if bigger else (run.size, run.tiles)
        out.put(draw_batch(rng, source, size, tiles))  # type: ignore[attr-defined]
        index += run.workers


def _batches(
    source: FreshSource, seed: int, first: int, run: FreshRunSettings, large: object
) -> Generator[FreshBatch, None, None]:
    context = processes.get_context("fork")
    queue = context.Queue(maxsize=2 * run.workers + 2)
    workers = [
        context.Process(target=_draw_for_ever, args=(number, source, seed, first, run, large, queue), daemon=True)
        for number in range(run.workers)
    ]
    for worker in workers:
        worker.start()
    try:
        while True:
            try:
                batch = queue.get(timeout=_PATIENCE_S)
            except Empty:
                if not all(worker.is_alive() for worker in workers):
                    raise FlameError("a process that draws tiles died; its message stands above") from None
                continue
            yield batch
    finally:
        for worker in workers:
            worker.terminate()


def train_fresh(
    folder: Path,
    source: FreshSource,
    settings: PlusSettings,
    run: FreshRunSettings,
    seed: int = 0,
    facts: dict[str, object] | None = None,
    start: Path | None = None,
) -> FlamePlus:
    """Trains in a folder, or goes on with what stands there, and returns the averaged network.

    A new run begins with the weights of `start`, if given, and its settings; what it was trained on is noted.

    The folder then holds `model.safetensors` (the average), `checkpoint.pt` and `log.csv`.
    """
    if run.bfloat16 and not shield_from_amx():
        raise FlameError("this processor says that it computes in bfloat16, but dies of it: train without")
    before = torch.get_num_threads()
    torch.set_num_threads(run.threads)
    try:
        return _trained(folder, source, settings, run, seed, facts, start)
    finally:
        torch.set_num_threads(before)


def _trained(
    folder: Path,
    source: FreshSource,
    settings: PlusSettings,
    run: FreshRunSettings,
    seed: int,
    facts: dict[str, object] | None,
    start: Path | None,
) -> FlamePlus:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    checkpoint = folder / CHECKPOINT
    state = torch.load(checkpoint, weights_only=True) if checkpoint.is_file() else None
    if start is not None:
        stored = load_plus(start)
        model, settings = stored.model, stored.model.settings
        facts = {**(facts or {}), "started_from": dict(stored.facts)}
    else:
        conditioning = None
        if state is None and settings.functions:
            conditioning = learn_conditioning(np.random.default_rng((seed, 1 << 40)), source, run.size)
        model = FlamePlus(settings, conditioning)
    source = replace(source, spectra=settings.functions > 0)
    # Channels beside each other: a step takes a sixth to a quarter less time on CPUs.
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.rate, weight_decay=1e-4, fused=True)
    average = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    step, before_s, drawn = 0, 0.0, 0
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average, step, before_s, drawn = state["average"], state["step"], state["seconds"], state["drawn"]
    began = saved = time.monotonic()
    large = processes.get_context("fork").Value("b", 0)
    coming = _batches(source, seed, drawn, run, large)
    sums: dict[str, float] = {}
    turns = np.random.default_rng((seed, 1 << 41, drawn))
    batches: list[FreshBatch] = []
    while True:
        seconds = before_s + time.monotonic() - began
        share = min(1.0, step / run.steps if run.steps else seconds / (60.0 * run.minutes))
        if share >= 1.0:
            break
        large.value = int(share > 1.0 - run.large_share)
        rate = run.rate * min(1.0, (step + 1) / run.warmup_steps) * 0.5 * (1.0 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = max(rate, 1e-6)
        new = not batches or step % run.views == 0
        if new:
            batches = [next(coming) for _ in range(run.batches)]
            drawn += run.batches
        optimizer.zero_grad(set_to_none=True)
        model.train()
        for batch in batches:
            seen = batch if new else batch.turned(int(turns.integers(1, 4)), bool(turns.integers(2)))
            planes = planes_of(model, seen, run.spectral_dropout)  # functions of wavelength keep all their digits
            with torch.autocast("cpu", torch.bfloat16, enabled=run.bfloat16):
                out = model(planes)
            losses = plus_loss(out, seen)
            (losses.total / run.batches).backward()  # type: ignore[no-untyped-call]
            for name, value in vars(losses).items():
                sums[name] = sums.get(name, 0.0) + float(value.detach()) / run.batches
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        decay = min(run.averaging, (1.0 + step) / (10.0 + step))
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                average[name].lerp_(tensor, 1.0 - decay)
            else:
                average[name].copy_(tensor)
        if step % 50 == 0:
            means = {name: value / 50 for name, value in sums.items()}
            sums = {}
            if not math.isfinite(means["total"]):
                raise FlameError(f"the loss became {means['total']} at step {step}; lower the learning rate")
            line = f"{step},{seconds:.0f},{rate:.2e}," + ",".join(f"{value:.5f}" for value in means.values())
            with (folder / "log.csv").open("a") as log:
                log.write(line + "\n")
            print(line, flush=True)
        if time.monotonic() - saved > 60.0 * run.checkpoint_minutes:
            _checkpoint(checkpoint, model, optimizer, average, step, before_s + time.monotonic() - began, drawn)
            save_plus(folder / FILE, settings, average, {"step": step, "run": asdict(run), **(facts or {})})
            saved = time.monotonic()
    coming.close()
    _checkpoint(checkpoint, model, optimizer, average, step, seconds, drawn)
    save_plus(folder / FILE, settings, average, {"step": step, "run": asdict(run), **(facts or {})})
    model.load_state_dict(average)
    return model.eval()


def _checkpoint(
    path: Path,
    model: FlamePlus,
    optimizer: torch.optim.Optimizer,
    average: dict[str, Tensor],
    step: int,
    seconds: float,
    drawn: int,
) -> None:
    partial = path.with_suffix(".partial")
    state = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average,
        "step": step, "seconds": seconds, "drawn": drawn,
    }  # fmt: skip
    torch.save(state, partial)
    partial.replace(path)
