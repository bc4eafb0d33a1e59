"""The real truncated DFT is the FFT form, at every size, and exports without complex operators."""

import onnx
import pytest
import torch
from fft_reference import fft_spectral

from flame.models.backbones.ufno import OperatorBlock
from flame.models.spectral import SpectralConv2d


@pytest.mark.parametrize("size", [(128, 128), (64, 96), (24, 24), (17, 23), (9, 50), (33, 8), (1, 1)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_equals_the_fft_form(size, dtype, tolerance):
    torch.manual_seed(0)
    layer = SpectralConv2d(5, 12).to(dtype)
    field, added = torch.randn(2, 2, 5, *size, dtype=dtype)
    expected = fft_spectral(layer, field, added)
    assert (layer(field, added) - expected).abs().max() < tolerance * expected.abs().max()
    assert torch.equal(layer(field), layer(field, torch.zeros_like(field)))


def test_gradients_equal_the_fft_forms():
    torch.manual_seed(1)
    layer = SpectralConv2d(3, 4).double()
    field = torch.randn(2, 3, 20, 22, dtype=torch.float64, requires_grad=True)
    cotangent = torch.randn_like(field)
    ours = torch.autograd.grad(layer(field), (field, layer.weight), cotangent)
    theirs = torch.autograd.grad(fft_spectral(layer, field), (field, layer.weight), cotangent)
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-10, atol=1e-12)


def test_commutes_with_circular_shifts():
    torch.manual_seed(2)
    layer = SpectralConv2d(4, 6).double()
    field = torch.randn(1, 4, 30, 40, dtype=torch.float64)
    shifted = layer(field.roll((7, 11), (2, 3)))
    torch.testing.assert_close(shifted, layer(field).roll((7, 11), (2, 3)))


def test_exports_without_complex_operators(tmp_path):
    layer = SpectralConv2d(3, 4).eval()
    path = tmp_path / "spectral.onnx"
    torch.onnx.export(layer, (torch.randn(1, 3, 16, 24),), path, dynamo=False)
    graph = onnx.load(path).graph
    operators = {node.op_type for node in graph.node}
    assert operators <= {
        "MatMul",
        "Gemm",
        "Reshape",
        "Transpose",
        "Concat",
        "Neg",
        "Gather",
        "Constant",
        "Cast",
        "Add",
        "ConstantOfShape",
        "Split",
        "Squeeze",
        "Sub",
    }
    complex_types = {onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128}
    assert not complex_types & {tensor.data_type for tensor in graph.initializer}


@pytest.mark.parametrize("local", [False, True])
def test_a_block_has_the_gradients_of_its_plain_form(local):
    """The merged 1x1 convolution, dense concatenation and hand-written backward change nothing."""
    torch.manual_seed(3)
    block = OperatorBlock(3, 4, local=local).double()
    field = torch.randn(2, 3, 16, 24, dtype=torch.float64, requires_grad=True)
    mixed = fft_spectral(block.spectral, field) + block.pointwise(field)
    if local:
        mixed = mixed + block.unet(field)
    plain = block.gate(torch.nn.functional.gelu(mixed))
    leaves, cotangent = (field, *block.parameters()), torch.randn_like(field)
    torch.testing.assert_close(block(field), plain)
    ours, theirs = (torch.autograd.grad(out, leaves, cotangent) for out in (block(field), plain))
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-9, atol=1e-11)
