"""Figures as cells of Markdown tables."""

from __future__ import annotations

import math

__all__ = ["shown"]


def shown(value: float | None, scale: float = 1.0, digits: int = 3) -> str:
    """A figure, or nothing where it has no meaning: the precision of a model that found nothing."""
    return "" if value is None or math.isnan(value) else f"{scale * value:.{digits}f}"
