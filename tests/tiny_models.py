"""Tiny ONNX graphs in the packaged form: what the runtime can be tested with in milliseconds."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scipy import ndimage

from flame.onboard import Manifest, ModelPackage, sha256_of
from flame.prepare import BackgroundSettings, PrepareSettings
from flame.scene import BandSet, Scene

CENTRES_NM = (2200.0, 2250.0, 2300.0, 2350.0)
SPECTRUM = np.array([-0.2, -0.1, -1.0, -0.6])
BANDS = BandSet(np.array(CENTRES_NM), np.full(4, 6.0))
TAU_PPM_M = 1000.0


def manifest(onnx_bytes, **changes):
    facts = {
        "name": "tiny",
        "sensor": "aviris-ng",
        "band_centres_nm": CENTRES_NM,
        "band_fwhm_nm": (6.0,) * 4,
        "absorption": tuple(SPECTRUM.tolist()),
        "tile": 32,
        "inputs": ("log_radiance",),
        "tau_ppm_m": TAU_PPM_M,
        "sha256": sha256_of(onnx_bytes),
    }
    return Manifest(**(facts | changes))


def _graph(nodes, inputs, tile, constants, bands=4):
    shapes = {
        "log_radiance": [1, bands, tile, tile],
        "rgb": [1, 3, tile, tile],
        "background_mean": [1, bands],
        "whitening": [1, bands, bands],
    }
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, tile, tile]) for name in ("probability", "score")],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def filter_model(tile=32, centred=False):
    """Score: minus the log-radiance of band 2 against the mean of the others; pixelwise unless centred on the tile."""
    weight = np.array([1, 1, -3, 1], dtype=np.float32).reshape(1, 4, 1, 1) / 3
    nodes = [helper.make_node("Conv", ["log_radiance", "weight"], ["raw"])]
    if centred:
        nodes += [
            helper.make_node("ReduceMean", ["raw"], ["mean"], axes=[2, 3]),
            helper.make_node("Sub", ["raw", "mean"], ["response"]),
        ]
    else:
        nodes.append(helper.make_node("Identity", ["raw"], ["response"]))
    nodes += [
        helper.make_node("Squeeze", ["response", "axis"], ["score"]),
        helper.make_node("Mul", ["score", "slope"], ["steep"]),
        helper.make_node("Sub", ["steep", "offset"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["probability"]),
    ]
    constants = {
        "weight": weight,
        "axis": np.array([1]),
        "slope": np.float32(40.0),
        "offset": np.float32(4.0),
    }
    content = _graph(nodes, ("log_radiance",), tile, constants)
    return ModelPackage(manifest(content, tile=tile), content, "tiny")


def whitening_model(tile=32, bands=BANDS, spectrum=SPECTRUM):
    """Score: the tile's own matched filter in units of tau; probability from its response in standard deviations."""
    count = len(bands)
    nodes = [
        helper.make_node("Reshape", ["log_radiance", "flat"], ["pixels"]),
        helper.make_node("Unsqueeze", ["background_mean", "last"], ["mean"]),
        helper.make_node("Sub", ["pixels", "mean"], ["residual"]),
        helper.make_node("MatMul", ["whitening", "residual"], ["white"]),
        helper.make_node("MatMul", ["whitening", "spectrum"], ["target"]),
        helper.make_node("Mul", ["white", "target"], ["product"]),
        helper.make_node("ReduceSum", ["product", "band"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["target", "target"], ["squared"]),
        helper.make_node("ReduceSum", ["squared", "band"], ["norm"], keepdims=0),
        helper.make_node("Div", ["sum", "norm"], ["alpha"]),
        helper.make_node("Mul", ["alpha", "unit"], ["flat_score"]),
        helper.make_node("Reshape", ["flat_score", "image"], ["score"]),
        helper.make_node("Sqrt", ["norm"], ["root"]),
        helper.make_node("Div", ["sum", "root"], ["sigma"]),
        helper.make_node("Reshape", ["sigma", "image"], ["sigmas"]),
        helper.make_node("Sub", ["sigmas", "offset"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["probability"]),
    ]
    constants = {
        "flat": np.array([1, count, tile * tile]),
        "image": np.array([1, tile, tile]),
        "last": np.array([2]),
        "band": np.array([1]),
        "spectrum": spectrum.astype(np.float32).reshape(1, count, 1),
        "unit": np.float32(1e5 / TAU_PPM_M),
        "offset": np.float32(4.0),
    }
    inputs = ("log_radiance", "background_mean", "whitening")
    content = _graph(nodes, inputs, tile, constants, count)
    facts = manifest(
        content,
        tile=tile,
        inputs=inputs,
        prepare=PrepareSettings(background=BackgroundSettings(samples=4096, passes=3)),
        band_centres_nm=tuple(bands.centres_nm.tolist()),
        band_fwhm_nm=tuple(bands.fwhm_nm.tolist()),
        absorption=tuple(spectrum.tolist()),
    )
    return ModelPackage(facts, content, "tiny")


def plume_scene(rows, cols, boxes=((10, 20, 12, 22),), seed=0, alpha_ppm_m=30_000.0):
    """A noisy flat scene with methane in boxes of (first row, first col, end row, end col), and the mask to find."""
    rng = np.random.default_rng(seed)
    alpha = np.zeros((rows, cols))
    for top, left, bottom, right in boxes:
        alpha[top:bottom, left:right] = alpha_ppm_m
    log = np.log(5.0) + SPECTRUM[:, None, None] * alpha / 1e5 + 0.003 * rng.normal(size=(4, rows, cols))
    valid = np.ones((rows, cols), dtype=bool)
    return Scene(np.exp(log).astype(np.float32), BANDS, valid), ndimage.binary_opening(alpha > 0)


def random_plus():
    """A small second flame-plus of random weights, which marks much; plumes peak at 0.3 to 0.8 standard deviations."""
    import torch  # most users of this file do without

    from flame.models.plus import FlamePlus, PlusSettings

    torch.manual_seed(0)
    made = FlamePlus(PlusSettings(functions=5, width=8, hidden=8)).eval()
    with torch.no_grad():
        made.project.weight.mul_(20.0)
        made.project.bias.zero_()
        made.weight_head.weight.normal_(0, 0.3)
        made.background_head.weight.normal_(0, 0.3)
    return made
