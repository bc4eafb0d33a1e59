"""Figures as cells of Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["markdown_table", "shown"]


def shown(value: float | None, scale: float = 1.0, digits: int = 3) -> str:
    """A figure, or nothing where it has no meaning: the precision of a model that found nothing."""
    return "" if value is None or math.isnan(value) else f"{scale * value:.{digits}f}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is text, the others are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
