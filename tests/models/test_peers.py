"""Networks written here equal those of other packages, and operators do not depend on the grid."""

import numpy as np
import ptwt
import pytest
import torch
import torch.nn.functional as F
from neuralop.layers.spectral_convolution import SpectralConv
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from flame.models.backbones import Wno
from flame.models.backbones.ffno import AxisSpectralConv
from flame.models.backbones.uno import ResamplingSpectralConv
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


def test_resampling_convolution_is_neuraloperators_on_one_grid():
    torch.manual_seed(0)
    m, layer = 4, ResamplingSpectralConv(3, 5, 4)
    theirs = SpectralConv(3, 5, n_modes=(2 * m, 2 * m - 1), bias=False, fft_norm="forward")
    weight = torch.complex(*layer.weight).reshape(m, 2 * m, 3, 5).permute(2, 3, 1, 0)
    # Theirs keeps rows in the shifted order -m to m-1, ours 0 to m-1 and then -m to -1.
    theirs.weight = torch.nn.Parameter(torch.cat([weight[:, :, m:], weight[:, :, :m]], 2))
    field = torch.randn(2, 3, 20, 26)
    torch.testing.assert_close(layer(field, 20, 26), theirs(field), atol=1e-5, rtol=1e-4)


def test_resampling_convolution_gives_the_same_function_on_every_grid():
    torch.manual_seed(0)
    layer = ResamplingSpectralConv(4, 2, 6)
    fine = layer(smooth(4, 48, 64), 48, 64)
    for rows, cols in ((24, 32), (16, 16)):
        torch.testing.assert_close(layer(smooth(4, rows, cols), 48, 64), fine, atol=1e-5, rtol=1e-4)
        coarse = layer(smooth(4, 48, 64), rows, cols)
        torch.testing.assert_close(coarse, fine[..., :: 48 // rows, :: 64 // cols], atol=1e-5, rtol=1e-4)


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
