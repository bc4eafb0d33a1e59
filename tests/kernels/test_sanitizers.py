"""The kernels under AddressSanitizer and UBSan on odd sizes: nothing is read or written beyond its memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_sets import FOLDER

SCRIPT = Path(__file__).with_name("odd_sizes.py")
FLAGS = ["-O0", "-g", "-std=gnu11", "-fPIC", "-pthread", "-Wno-psabi", "-DSUFFIX=_baseline", "-DBASELINE", "-DLANES=16"]
CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


def _runtime(name):
    """Path of a sanitizer's library, as the compiler finds it; None if it has none."""
    if shutil.which("cc") is None:
        return None
    found = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    path = Path(found.stdout.strip())
    return path if path.is_absolute() and path.is_file() else None


@pytest.mark.skipif(_runtime("libasan.so") is None, reason="the compiler has no AddressSanitizer")
def test_no_kernel_leaves_its_memory(tmp_path):
    """With the widest vectors, which reach furthest."""
    target = tmp_path / "sane.so"
    subprocess.run(["cc", *FLAGS, *CHECKS, "-shared", *sorted(FOLDER.glob("*.c")), "-o", target], check=True)
    environment = os.environ | {
        "LD_PRELOAD": str(_runtime("libasan.so")),
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, SCRIPT, target], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "every kernel ran" in done.stdout
