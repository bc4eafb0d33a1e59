"""Shape and type checks on for the whole package while tests run, and no test worker dies of bfloat16.

Test workers share the cores: with two threads each for every small product they would wait for each other most of the
time. The threads of filters and kernels, which are our own, stay as they are.
"""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded

from jaxtyping import install_import_hook

install_import_hook("flame", "beartype.beartype")

from flame.training.precision import shield_from_amx  # noqa: E402  after the hook

shield_from_amx()  # before torch computes anything in this process

if "PYTEST_XDIST_WORKER" in os.environ:
    import torch

    torch.set_num_threads(1)
