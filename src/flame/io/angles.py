"""Sun and view angles from a few lines of a product's own layers."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = ["mean_angle_deg", "sample_lines"]


def sample_lines(rows: int) -> list[int]:
    """Three lines spread over a scene: angles change smoothly, and reading them all would cost as much as a band."""
    return sorted({rows // 6, rows // 2, rows * 5 // 6})


def mean_angle_deg(values: Float[np.ndarray, ...]) -> float | None:
    """Mean of the values that can be zenith angles; None if none can."""
    sane = values[(values >= 0) & (values <= 90)]
    return float(sane.mean()) if sane.size else None
