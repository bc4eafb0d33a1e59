"""Networks written here equal those of other packages, and operators do not depend on the grid."""

from functools import partial

import numpy as np
import ptwt
import pytest
import torch
import torch.nn.functional as F
from neuralop.layers.fno_block import FNOBlocks
from tltorch import FactorizedTensor
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from flame.models.backbones import Fno, Wno
from flame.models.backbones.ffno import AxisSpectralConv
from flame.models.backbones.fno import TuckerWeights
from flame.models.backbones.mixing import complex_product, mix_spectrum
from flame.models.backbones.wno import SubBandWeights
from flame.models.baselines import SegFormer


def smooth(channels: int, rows: int, cols: int) -> torch.Tensor:
    """A periodic field of low frequencies, the same function on any grid."""
    y, x = np.mgrid[:rows, :cols] / np.array([rows, cols]).reshape(2, 1, 1) * 2 * np.pi
    waves = [np.cos((k % 3) * x + (k % 4) * y + k) for k in range(channels)]
    return torch.tensor(np.stack(waves)[None], dtype=torch.float32)


@pytest.mark.parametrize(("rows", "cols"), [(24, 30), (31, 17)])
def test_axis_convolution_is_the_fft_form(rows, cols):
    torch.manual_seed(0)
    layer, field = AxisSpectralConv(3, 6), torch.randn(2, 3, rows, cols)
    weight = torch.complex(*layer.weight)
    kept = torch.fft.rfft(field)[..., :6]
    full = torch.zeros(2, 3, rows, cols // 2 + 1, dtype=torch.complex64)
    full[..., :6] = torch.einsum("birm,mio->borm", kept, weight)
    torch.testing.assert_close(layer(field), torch.fft.irfft(full, n=cols), atol=1e-5, rtol=1e-4)


def _dense(layer: torch.nn.Module, modes: int, channels: int) -> torch.Tensor:
    """Weights (part, mode, in, out) of a layer: what it makes of unit vectors."""
    unit = torch.eye(channels).expand(2 * modes * modes, channels, channels)
    return layer(torch.stack([unit, torch.zeros_like(unit)]))


def _shifted(weight: torch.Tensor, modes: int) -> torch.Tensor:
    """Weights (part, mode, in, out) as neuraloperator has them: complex, (in, out, row, col), rows from -m up."""
    rows_first = torch.complex(*weight).unflatten(0, (modes, 2 * modes)).permute(2, 3, 1, 0)
    return torch.cat([rows_first[:, :, modes:], rows_first[:, :, :modes]], 2)


@pytest.mark.parametrize(("rows", "cols"), [(40, 50), (64, 33)])
def test_fno_is_that_of_neuraloperator(rows, cols):
    torch.manual_seed(0)
    ours = Fno(3)
    theirs = FNOBlocks(3, 3, n_modes=(31, 31), n_layers=4, fno_skip="linear", use_channel_mlp=False)
    with torch.no_grad():
        for number, layer in enumerate(ours.operator.layers):
            theirs.convs[number].weight.tensor.copy_(_shifted(_dense(layer.weights, 16, 3), 16)[:, :, 1:])
            theirs.convs[number].bias.copy_(layer.pointwise.bias[:, None, None])
            theirs.fno_skips[number].conv.weight.copy_(layer.pointwise.weight.flatten(2))
        field = expected = torch.randn(2, 3, rows, cols)
        for number in range(4):  # their own loop takes GELU twice where there is no channel MLP
            expected = expected if number == 0 else F.gelu(expected)
            expected = theirs.convs[number](expected) + theirs.fno_skips[number](expected)
        torch.testing.assert_close(ours(field), expected, atol=1e-5, rtol=1e-4)


def test_tucker_weights_are_those_of_tensorly():
    torch.manual_seed(0)
    layer = TuckerWeights(5, 4, (3, 2, 4, 2))
    theirs = FactorizedTensor.new((5, 5, 8, 4), rank=[3, 2, 4, 2], factorization="ComplexTucker")
    with torch.no_grad():
        theirs.core.copy_(torch.complex(*layer.core))
        for factor, ours in zip(theirs.factors, layer.factors, strict=True):
            factor.copy_(torch.complex(*ours))
        expected = theirs.to_tensor().permute(3, 2, 0, 1).flatten(0, 1)
        torch.testing.assert_close(torch.complex(*_dense(layer, 4, 5)), expected)


def test_mixing_of_frequencies_gives_the_same_function_on_every_grid():
    weight = torch.randn(2, 72, 4, 2, generator=torch.Generator().manual_seed(0))
    mix = partial(complex_product, second=weight)
    fine = mix_spectrum(smooth(4, 48, 64), mix, 6)
    for rows, cols in ((24, 32), (16, 16)):
        from_coarse = mix_spectrum(smooth(4, rows, cols), mix, 6, (48, 64))
        torch.testing.assert_close(from_coarse, fine, atol=1e-4, rtol=1e-4)
        to_coarse = mix_spectrum(smooth(4, 48, 64), mix, 6, (rows, cols))
        torch.testing.assert_close(to_coarse, fine[..., :: 48 // rows, :: 64 // cols], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("rows", "cols"), [(64, 64), (37, 50)])
def test_wavelet_layer_with_unit_weights_gives_the_field_back(rows, cols):
    layer = SubBandWeights(3)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(3)[None, :, :, None, None].expand_as(layer.weight))
        field = torch.randn(2, 3, rows, cols, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(layer(field), field, atol=1e-4, rtol=1e-3)


def test_a_512_pixel_tile_has_as_many_coefficients_as_the_wavelet_weights():
    coarse = ptwt.wavedec2(torch.zeros(1, 1, 512, 512), "db6", level=6, mode="zero")[0]
    assert Wno(14).sub_bands[0].weight.shape == (4, 14, 14, *coarse.shape[-2:])


def test_segformer_is_that_of_transformers():
    torch.manual_seed(0)
    theirs = SegformerForSemanticSegmentation(SegformerConfig(num_channels=7, num_labels=1)).eval()
    ours = SegFormer(7).eval()
    # Both name their layers differently but have them in the same order; their linear layers may be 1x1 convolutions.
    mine, weights = ours.state_dict(), theirs.state_dict().values()
    ours.load_state_dict({k: w.reshape(v.shape) for (k, v), w in zip(mine.items(), weights, strict=True)})
    field = torch.randn(1, 7, 64, 96)
    with torch.no_grad():
        expected = F.interpolate(theirs(field).logits, (64, 96), mode="bilinear", align_corners=False)
        torch.testing.assert_close(ours(field), expected, atol=1e-5, rtol=1e-4)
