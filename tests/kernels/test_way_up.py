"""The last way up of a pyramid: one kernel in place gives what two kernels and an image in between give."""

import numpy as np
import pytest

from flame.kernels import Image, load_kernels, pack
from flame.onboard.native.operator import LINEAR, Crew, pack_up
from kernel_sets import kernels, wide_kernels  # noqa: F401


@pytest.mark.skipif(load_kernels() is None, reason="built without a C compiler")
@pytest.mark.parametrize(("channels", "rows", "cols"), [(16, 6, 32), (9, 5, 16), (14, 8, 48)])
def test_a_way_up_onto_what_goes_past_it(kernels, channels, rows, cols):  # noqa: F811
    rng = np.random.default_rng(channels)
    below = [Image(count, rows, cols) for count in (channels, 8)]
    past, apart = (Image(channels, 2 * rows, 2 * cols) for _ in range(2))
    for image in (*below, past):
        image.pixels[:] = rng.standard_normal(image.pixels.shape)
    weight = pack_up(rng.standard_normal((channels + 8, channels, 4, 4)).astype(np.float32))
    beside = pack(rng.standard_normal((channels, channels)).astype(np.float32))
    bias, nothing = rng.standard_normal(channels).astype(np.float32), np.zeros(channels, dtype=np.float32)
    crew = Crew(kernels, 2)
    crew.up(below, 4, weight, bias, LINEAR, apart)
    crew.convolve([(past, 1)], beside, nothing, LINEAR, apart, onto=True)
    crew.up_onto(below, weight, bias, beside, past)
    np.testing.assert_allclose(past.pixels, apart.pixels, rtol=1e-5, atol=1e-4)
    whole = past._memory
    assert not whole[0].any()
    assert not whole[-1].any()
    assert not whole[:, :, :32].any()
    assert not whole[:, :, 32 + 2 * cols :].any()
