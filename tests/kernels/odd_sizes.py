"""Every kernel on odd sizes, called as flame calls them; run by `test_sanitizers` under AddressSanitizer and UBSan.

python odd_sizes.py LIBRARY
"""

import ctypes
import sys

import numpy as np
import safetensors.numpy

from flame.kernels import library
from flame.onboard import load_model
from flame.onboard.native import NativePlanes
from flame.onboard.plane_backends import PlaneJudge
from flame.physics import BandSet
from flame.prepare import FIELDS, BackgroundSettings, PrepareSettings, TilePreparer
from flame.prepare.planes import GRID_NM, PlanePreparer, PlaneSettings


def prepare(kernels, bands, rows, cols, seed):
    """Prepares a tile with holes, laid out in blocks, from a ring of rows with odd strides."""
    rng = np.random.default_rng(seed)
    names = ("whitened", "target", "unwhitening", "pixel_fields", "rgb")
    settings = PrepareSettings(
        background=BackgroundSettings(samples=64, passes=2), pixel_fields=tuple(FIELDS), rgb="tile"
    )
    set_of_bands = BandSet(np.linspace(2130.0, 2470.0, bands), np.full(bands, 6.0))
    radiance = np.exp(0.1 * rng.standard_normal((bands, rows, cols + 3), dtype=np.float32))[:, :, :cols]
    valid = rng.random((rows, cols)) < 0.8
    rgb = np.ones((3, rows, cols), np.float32)
    preparer = TilePreparer(
        *(settings, names, set_of_bands, (rows, cols)), threads=3, block_rows=1 if seed % 2 else None, kernels=kernels
    )
    made = preparer.prepare(radiance, valid, rgb, rows // 2, always=True)
    assert all(np.isfinite(array).all() for array in made.inputs.values())


def make_planes(kernels, bands, rows, cols, seed):
    """Makes the planes of a tile with holes, from a longer ring of rows with odd strides."""
    rng = np.random.default_rng(seed)
    centres = np.linspace(2130.0, 2470.0, bands)
    ground = np.exp(0.3 * rng.standard_normal((1, rows + 2, cols + 3)) - 1e-3 * (centres - 2300)[:, None, None])
    noisy = ground * (1 + 0.01 * rng.standard_normal((bands, rows + 2, cols + 3)))
    radiance = noisy.astype(np.float32)[:, :, :cols]
    functions = rng.standard_normal((seed % 3 * 7, GRID_NM.size), dtype=np.float32)
    settings = PlaneSettings(anchors=2 + seed, clutter_px=0.5 + 9 * seed)
    set_of_bands = BandSet(centres, np.full(bands, 6.0))
    maker = PlanePreparer(settings, functions, set_of_bands, (rows, cols), threads=3, kernels=kernels)
    made = maker.prepare(radiance, rng.random((rows, cols)) < 0.8, first=rows // 2)
    assert all(np.isfinite(array).all() for array in made.inputs.values())


def infer(kernels, rows, cols):
    """The packaged network on another size of tile, each input in memory of exactly its size."""
    package = load_model()
    arrays = {name: array.copy() for name, array in safetensors.numpy.load(package.weights).items()}
    judge = PlaneJudge(package.manifest.plane_facts, 400.0)
    network = NativePlanes(arrays, judge.rows, judge.held, judge.level, (rows, cols), kernels, 3)
    rng = np.random.default_rng(rows)
    planes, windows = arrays["lift.weight"].shape[1], len(arrays["weight_head.weight"])
    shapes = {"planes": (1, planes, rows, cols), "windows": (1, windows, rows, cols)}
    shapes |= dict.fromkeys(("significance", "sigma"), (1, rows, cols))
    inputs = {name: np.abs(rng.standard_normal(shape, dtype=np.float32)) for name, shape in shapes.items()}
    assert all(np.isfinite(layer).all() for layer in network.infer(inputs))


def main():
    kernels = library.Kernels(ctypes.CDLL(sys.argv[1]), "baseline")
    sizes = [(4, 1, 1), (4, 2, 1), (5, 1, 7), (9, 17, 3), (4, 33, 31), (10, 16, 33), (72, 5, 47), (13, 40, 65)]
    for seed, (bands, rows, cols) in enumerate(sizes):
        prepare(kernels, bands, rows, cols, seed)
    for seed, (bands, rows, cols) in enumerate([(20, 60, 17), (13, 9, 33), (40, 7, 47), (30, 40, 65)]):
        make_planes(kernels, bands, rows, cols, seed)
    for rows, cols in ((32, 32), (64, 96), (160, 64)):
        infer(kernels, rows, cols)
    print("every kernel ran")


if __name__ == "__main__":
    main()
