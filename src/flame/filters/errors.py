"""The one error of this room."""

from __future__ import annotations

from flame.errors import FlameError
from flame.physics import METHANE_WINDOW_NM

__all__ = ["OTHER_BANDS", "FilterError"]

OTHER_BANDS = f"give bands between {METHANE_WINDOW_NM[0]:g} and {METHANE_WINDOW_NM[1]:g} nm"
"""What to do where no band sees methane."""


class FilterError(FlameError):
    """A filter that cannot give an honest number for this image; the message says why."""
