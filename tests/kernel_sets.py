"""Every instruction set of the kernels that this processor has, and the width of the widest on any processor."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from flame.kernels import library, load_kernels

FOLDER = Path(library.__file__).parent
WIDE = "16 lanes"
"""The width of AVX-512, compiled for processors without it."""


def sets():
    best = load_kernels()
    every = library._SETS
    return every[: every.index(best.instructions) + 1] if best is not None else ("baseline",)


def compile_sources(folder, *flags):
    targets = []
    for source in sorted(FOLDER.glob("*.c")):
        targets.append(folder / f"{source.stem}.o")
        common = ["cc", "-O1", "-std=gnu11", "-fPIC", "-pthread", "-DSUFFIX=_baseline", "-DBASELINE", *flags]
        subprocess.run([*common, "-c", source, "-o", targets[-1]], check=True)
    return targets


@pytest.fixture(scope="session")
def wide_kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    compiled = compile_sources(folder, "-DLANES=16", "-Wno-psabi")
    subprocess.run(["cc", "-shared", "-pthread", *compiled, "-o", folder / "wide.so"], check=True)
    return library.Kernels(ctypes.CDLL(str(folder / "wide.so")), "baseline")


@pytest.fixture(params=[*sets(), WIDE])
def kernels(request):
    return request.getfixturevalue("wide_kernels") if request.param == WIDE else load_kernels(request.param)
