"""The training loop: one run from a recipe, a seed and two sets of tiles, that survives being killed at any moment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from flame.errors import FlameError
from flame.models import BatchPreparer, Flame, FlameSettings
from flame.models.trained import AnyModel, NetworkModel, Trained, load_trained, save_trained, settings_of
from flame.models.weights import StoredModel
from flame.physics import BandMismatchError, unit_absorption
from flame.training.batches import TileSequence, TrainingBatch, epoch_batches, prefetched
from flame.training.calibrate import calibrate
from flame.training.checkpoints import Progress, load_checkpoint, save_checkpoint
from flame.training.curves import write_curves
from flame.training.distributed import World, join, share_batch_norm, sum_gradients
from flame.training.evaluate import evaluate_model
from flame.training.losses import Losses, training_loss
from flame.training.precision import autocast, shield_from_amx
from flame.training.recipes import OptimizerSettings, Recipe
from flame.training.splits import require_plumes
from flame.training.statistics import fit_normalisation, training_statistics

__all__ = ["RunError", "StepReport", "Trainer", "chosen_device", "learning_rate"]

CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"


class RunError(FlameError):
    """A run that cannot be started in that folder."""


@dataclass(frozen=True)
class StepReport:
    """What the loop tells whoever watches, after each step; validation figures only at the end of an epoch."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    validation: dict[str, float] | None = None


def learning_rate(step: int, steps: int, settings: OptimizerSettings) -> float:
    """Cosine from `rate` to `last_rate` over the run, after a linear warm-up if there is one."""
    if step < settings.warmup_steps:
        return settings.rate * (step + 1) / settings.warmup_steps
    share = (step - settings.warmup_steps) / max(1, steps - 1 - settings.warmup_steps)
    return settings.last_rate + 0.5 * (settings.rate - settings.last_rate) * (1.0 + math.cos(math.pi * share))


def chosen_device(name: str | None, world: World) -> torch.device:
    """The device of this process: a GPU of its own if there is one, or what was asked for.

    Raises:
        RunError: If a GPU is asked for and there is none.
    """
    cuda = torch.cuda.is_available()
    if name == "cuda" and not cuda:
        raise RunError("--device cuda: PyTorch sees no GPU here; install a CUDA build of torch, or take --device cpu")
    return torch.device(f"cuda:{world.local_rank}" if cuda and name != "cpu" else "cpu")


class Trainer:
    """Trains a model in a run folder.

    The folder then holds `model.safetensors` (the epoch with the best validation F1, or the last, as the recipe says),
    `checkpoint.safetensors`, `log.csv` and `curves.png`.

    Args:
        recipe: What to train and how.
        training: Tiles to learn from.
        validation: Tiles to choose the epoch by; never the test set.
        folder: The run folder.
        seed: Decides initial weights, order and augmentation.
        resume: Go on from the folder's checkpoint if there is one.
        watch: Called after each step.
        start: A trained model whose weights and training statistics the run starts from, for example to go on with
            larger tiles.
        device: Where to train; a GPU if there is one, unless given.
        snapshots: Epochs after which the weights are kept too, as `epoch3.safetensors`.
    """

    def __init__(
        self,
        recipe: Recipe,
        training: TileSequence,
        validation: TileSequence,
        folder: Path,
        seed: int = 0,
        resume: bool = False,
        watch: Callable[[StepReport], None] | None = None,
        start: Trained | StoredModel | None = None,
        device: str | None = None,
        snapshots: Collection[int] = (),
    ) -> None:
        if not validation.bands.matches(training.bands):
            raise BandMismatchError(training.bands, validation.bands, "the validation set")
        shield_from_amx()
        self.world: World = join()
        self.device = chosen_device(device, self.world)
        cuda = self.device.type == "cuda"
        self.recipe = replace(recipe, model=replace(recipe.model, bands=len(training.bands)))
        if recipe.keep == "best" or recipe.calibrate:
            held = (validation[index] for index in range(len(validation)))
            require_plumes(len(validation), (tile.label & tile.valid for tile in held))
        self.training, self.validation = training, validation
        self.folder, self.seed = folder, seed
        self._watch = watch or (lambda _: None)
        self._snapshots = frozenset(snapshots)
        torch.manual_seed(seed)
        model = self._new_model()
        if start is not None:
            self._take_over(model, start)
        if self.world.size > 1:
            share_batch_norm(model)
        self.model: AnyModel = model.to(self.device)
        # Beside a step on the CPU one thread prepares the next batch; a GPU leaves the cores free for it.
        threads = torch.get_num_threads() if cuda else 1
        self._preparer = BatchPreparer(model.settings, training.bands, threads)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=recipe.optimizer.rate,
            weight_decay=recipe.optimizer.weight_decay,
            fused=True,
        )
        averaged = recipe.optimizer.averaging > 0
        self.average = {k: v.clone() for k, v in self.model.state_dict().items()} if averaged else None
        self.progress = Progress(self.recipe.to_json(), seed)
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint = folder / CHECKPOINT
        if checkpoint.is_file():
            if not resume:
                raise RunError(f"{folder}: holds a run already; continue it with --resume or give another folder")
            self.progress = load_checkpoint(
                checkpoint, self.progress.recipe, seed, self.model, self.optimizer, self.average
            )
        self._saved = time.monotonic()

    def _new_model(self) -> AnyModel:
        kind = self.recipe.model
        if self.recipe.calibrate and not isinstance(kind, FlameSettings):
            raise RunError("only FLAME's logit can be calibrated; set calibrate=false for another network")
        if isinstance(kind, FlameSettings):
            return Flame(kind, unit_absorption(self.training.bands), training_statistics(self.training, kind.prepare))
        model = NetworkModel(kind)
        fit_normalisation(model, self.training)
        return model

    def _take_over(self, model: AnyModel, start: Trained | StoredModel) -> None:
        if not start.bands.matches(self.training.bands):
            raise BandMismatchError(start.bands, self.training.bands, "the training set")
        if settings_of(start.model) != self.recipe.model:
            raise RunError("the model to start from has another architecture than the recipe; give the recipe it is of")
        model.load_state_dict(start.model.state_dict())

    def run(self) -> Progress:
        """Trains to the last epoch and gives the course of the run."""
        while self.progress.epoch < self.recipe.epochs:
            self._epoch()
        if self.recipe.calibrate and self.world.rank == 0:
            self._calibrate()
        return self.progress

    def _calibrate(self) -> None:
        """Shifts the kept model's logit once; a run resumed after its end finds it done."""
        stored = load_trained(self.folder)
        if "logit_shift" in stored.provenance:
            return
        model = stored.model.to(self.device)
        assert isinstance(model, Flame)
        shift = calibrate(model, self.validation, self.device)
        provenance = {**stored.provenance, "logit_shift": shift}
        save_trained(self.folder / MODEL, model, model.state_dict(), self.training.bands, provenance)

    def _epoch(self) -> None:
        settings, progress = self.recipe.batch, self.progress
        batches = epoch_batches(len(self.training), settings.size, self.seed, progress.epoch)
        mine = [batch[self.world.rank :: self.world.size] for batch in batches[progress.step :]]
        started = time.monotonic()
        for batch in prefetched(self.training, mine, settings, self.seed, progress.epoch, self._preparer):
            done = progress.epoch * len(batches) + progress.step
            self._set_rate(done, self.recipe.epochs * len(batches))
            losses = self._step(batch.to(self.device), progress.epoch)
            self._update_average(done)
            for name, value in vars(losses).items():
                progress.sums[name] = progress.sums.get(name, 0.0) + float(value.detach())
            progress.step += 1
            total = float(losses.total.detach())
            if not math.isfinite(total):
                raise RunError(f"the loss became {total} in epoch {progress.epoch}; lower the learning rate")
            self._watch(StepReport(progress.epoch, self.recipe.epochs, progress.step, len(batches), total))
            if time.monotonic() - self._saved > 60.0 * self.recipe.checkpoint_minutes:
                self._save()
        self._finish_epoch(len(batches), time.monotonic() - started)

    def _set_rate(self, step: int, steps: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, self.recipe.optimizer)

    def _step(self, batch: TrainingBatch, epoch: int) -> Losses:
        self.model.train()
        with autocast(self.device):
            output = self.model(batch.inputs)
        losses = training_loss(output, batch, self.recipe.model, self.recipe.loss, epoch)
        self.optimizer.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        sum_gradients(self.model)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.optimizer.clip_norm)
        self.optimizer.step()
        return losses

    @torch.no_grad()
    def _update_average(self, done: int) -> None:
        if self.average is None:
            return
        decay = min(self.recipe.optimizer.averaging, (1.0 + done) / (10.0 + done))  # soon forgets the first steps
        for name, tensor in self.model.state_dict().items():
            if tensor.is_floating_point():
                self.average[name].lerp_(tensor, 1.0 - decay)
            else:
                self.average[name].copy_(tensor)

    def _kept_weights(self) -> dict[str, Tensor]:
        return self.average if self.average is not None else self.model.state_dict()

    def _finish_epoch(self, steps: int, seconds: float) -> None:
        progress = self.progress
        means = {"loss": "total", "segmentation": "segmentation", "auxiliary": "auxiliary"}
        # From the schedule, not from the optimiser: a run resumed after an epoch's last step has not set it yet.
        rate = learning_rate((progress.epoch + 1) * steps - 1, self.recipe.epochs * steps, self.recipe.optimizer)
        row = {"epoch": float(progress.epoch + 1), "rate": rate}
        row |= {name: progress.sums.get(source, math.nan) / steps for name, source in means.items()}
        if self.world.rank == 0:
            row |= self._validate()
            f1, auprc = (row[name] if math.isfinite(row[name]) else 0.0 for name in ("f1", "auprc"))
            if self.recipe.keep == "last" or (f1, auprc) > (progress.best_f1, progress.best_auprc):
                progress.best_f1, progress.best_auprc, progress.best_epoch = f1, auprc, progress.epoch + 1
                provenance = {"recipe": asdict(self.recipe), "seed": self.seed, "validation": row}
                self._write(MODEL, provenance)
            if progress.epoch + 1 in self._snapshots:
                self._write(
                    f"epoch{progress.epoch + 1}.safetensors", {"recipe": asdict(self.recipe), "seed": self.seed}
                )
        progress.history.append(row | {"seconds_per_step": seconds / max(1, steps)})
        progress.epoch, progress.step, progress.sums = progress.epoch + 1, 0, {}
        self._save()
        if self.world.rank == 0:
            write_curves(self.folder, progress.history)
        self._watch(StepReport(progress.epoch - 1, self.recipe.epochs, steps, steps, row["loss"], row))

    def _write(self, name: str, provenance: dict[str, object]) -> None:
        save_trained(self.folder / name, self.model, self._kept_weights(), self.training.bands, provenance)

    def _validate(self) -> dict[str, float]:
        """Figures on the validation tiles, with the averaged weights if there are any."""
        own = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.model.load_state_dict(self._kept_weights())
        metrics = evaluate_model(self.model, self.validation, self.device)
        self.model.load_state_dict(own)
        return {
            name: getattr(metrics, name) for name in ("f1", "precision", "recall", "pixel_fpr", "tile_fpr", "auprc")
        }

    def _save(self) -> None:
        if self.world.rank == 0:
            save_checkpoint(self.folder / CHECKPOINT, self.progress, self.model, self.optimizer, self.average)
        self._saved = time.monotonic()
