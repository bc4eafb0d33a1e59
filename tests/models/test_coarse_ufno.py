"""The operator on half the grid: what it starts as, any size, as many parameters, gradients to every one."""

import pytest
import torch
from torch import nn

from flame.models.backbones import CoarseUFno, UFno


@pytest.mark.parametrize("size", [(16, 16), (17, 30), (33, 21)])
def test_without_operator_it_starts_as_the_field_and_its_means_of_four(size):
    backbone = CoarseUFno(5, 3)
    backbone.operator = nn.Identity()
    field = torch.randn(2, 5, *size, generator=torch.Generator().manual_seed(1))
    even = nn.functional.pad(field, (0, size[1] % 2, 0, size[0] % 2), mode="replicate")
    means = nn.functional.avg_pool2d(even, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)
    with torch.no_grad():
        found = backbone(field)
    torch.testing.assert_close(found, field + 2.0 * means[..., : size[0], : size[1]])


@pytest.mark.parametrize("size", [(48, 48), (51, 40)])
def test_takes_any_size_and_teaches_every_weight(size):
    torch.manual_seed(0)
    backbone = CoarseUFno(14, 12)
    out = backbone(torch.randn(1, 14, *size))
    assert out.shape == (1, 14, *size)
    out.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in backbone.parameters())
    assert all(p.grad.any() for name, p in backbone.named_parameters() if "operator" not in name)


def test_has_as_many_parameters_as_the_papers_backbone():
    own, papers = (sum(p.numel() for p in net.parameters()) for net in (CoarseUFno(), UFno()))
    assert 1.0 < own / papers < 1.003
