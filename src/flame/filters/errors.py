"""The one error of this room."""

from __future__ import annotations

from flame.errors import FlameError

__all__ = ["FilterError"]


class FilterError(FlameError):
    """A filter that cannot give an honest number for this image; the message says why."""
