"""Several processes as one: the loss, batch statistics and gradients are those of the whole minibatch."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce as differentiable_all_reduce

__all__ = ["SharedBatchNorm2d", "World", "join", "one_after_another", "share_batch_norm", "sum_gradients", "summed"]


@dataclass(frozen=True)
class World:
    """This process among its fellows; `torchrun` sets the environment that `join` reads."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0


def join() -> World:
    """Joins the processes that `torchrun` started, over NCCL with GPUs and gloo without; alone if there are none."""
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
        return World()
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(_leave)
    return World(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", "0")))


def _leave() -> None:
    """Ends the group before the interpreter ends: its threads, left to die with the process, now and then abort it."""
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def one_after_another() -> Iterator[None]:
    """Lets the first process do something, such as building a file, before the others do the same."""
    if _shared() and dist.get_rank() != 0:
        dist.barrier()
    yield
    if _shared() and dist.get_rank() == 0:
        dist.barrier()


def _shared() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def summed(local: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Sums over all processes. Gradients flow to this process's own part: they are added up by `sum_gradients`."""
    if not _shared():
        return local
    everywhere = local.detach().clone()
    dist.all_reduce(everywhere)
    return local + (everywhere - local.detach())


def sum_gradients(module: nn.Module) -> None:
    """Adds up every parameter's gradient over the processes, in one message."""
    if not _shared():
        return
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    for gradient, total in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(total.view_as(gradient))


class SharedBatchNorm2d(nn.BatchNorm2d):
    """Batch normalisation with the mean and variance of the minibatch over all processes, on any device.

    `torch.nn.SyncBatchNorm` does the same, but on GPUs only.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The input, normalised; the running statistics follow the whole minibatch."""
        if not (self.training and _shared()):
            return super().forward(input)
        count = torch.full((1,), input.numel() / input.shape[1], dtype=input.dtype, device=input.device)
        sums = torch.cat([input.sum((0, 2, 3)), input.square().sum((0, 2, 3)), count])
        total: Tensor = differentiable_all_reduce(sums)  # type: ignore[no-untyped-call]
        channels, pixels = input.shape[1], total[-1].detach()
        mean = total[:channels] / pixels
        variance = (total[channels : 2 * channels] / pixels - mean.square()).clamp_min(0.0)
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked += 1
                momentum = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
                self.running_mean.lerp_(mean.detach(), momentum)
                self.running_var.lerp_(variance.detach() * pixels / (pixels - 1), momentum)
        scale = torch.rsqrt(variance + self.eps)
        if self.affine:
            scale = scale * self.weight
        shift = (self.bias if self.affine else 0.0) - mean * scale
        normalised: Tensor = input * scale[:, None, None] + shift[:, None, None]
        return normalised


def share_batch_norm(module: nn.Module) -> None:
    """Replaces every batch norm inside a module by one over all processes, keeping its weights."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d) and not isinstance(child, SharedBatchNorm2d):
            shared = SharedBatchNorm2d(child.num_features, child.eps, child.momentum, child.affine)
            shared.load_state_dict(child.state_dict())
            setattr(module, name, shared)
        else:
            share_batch_norm(child)
