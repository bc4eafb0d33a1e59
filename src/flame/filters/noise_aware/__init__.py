"""The noise-aware matched filter: eq:log_mf_estimator of the paper with the covariance of each pixel.

`estimate_background` learns a tile, `apply` gives enhancement and sigma, `NoiseAwareResult.posterior` the smoothed map.
The paper writes a covariance C_i of each pixel, because the noise of a logarithm goes as one over the radiance, and
then shares one among all. Here `C_i` is the clutter of the tile plus the noise of the pixel's own brightness.
"""

from flame.filters.noise_aware.background import NoiseAwareBackground, estimate_background
from flame.filters.noise_aware.fields import NoiseAwareResult, Posterior, apply, layers, noise_aware_fields, score
from flame.filters.noise_aware.settings import NoiseAwareSettings
from flame.filters.noise_aware.smoothing import Prior

__all__ = [
    "NoiseAwareBackground",
    "NoiseAwareResult",
    "NoiseAwareSettings",
    "Posterior",
    "Prior",
    "apply",
    "estimate_background",
    "layers",
    "noise_aware_fields",
    "score",
]
