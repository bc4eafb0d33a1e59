"""Detects, forks, and detects again in the children; run by `test_pool` in a process that may be ended if it hangs."""

import multiprocessing

import numpy as np

from flame.onboard import Detector
from flame.scene import Scene

detector = Detector("flame-plus", "native", threads=2)
bands = detector.manifest.bands
rng = np.random.default_rng(0)
radiance = np.exp(0.1 * rng.standard_normal((len(bands), 96, 96), dtype=np.float32))
valid = rng.random((96, 96)) < 0.9
scene = Scene(radiance, bands, valid, np.ones((3, 96, 96), np.float32))


def probability(_):
    return detector.run(scene).probability


expected = probability(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for found in pool.map(probability, range(2)):
        print("same" if np.array_equal(found, expected) else "other")
print("same" if np.array_equal(probability(0), expected) else "other")
