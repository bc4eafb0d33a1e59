"""Tests of the native kernels are left out where these cannot be built, and only there."""

import os
import shutil

from flame.kernels import load_kernels, why_no_kernels


def test_kernels_are_there_wherever_there_is_a_compiler():
    compilers = [os.environ.get("CC", ""), "cc", "gcc", "clang"]
    assert load_kernels() is not None or not any(shutil.which(name) for name in compilers if name), why_no_kernels()
