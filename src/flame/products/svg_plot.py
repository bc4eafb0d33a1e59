"""Small line plots as SVG inside a page: sharp at any size, and their colours follow the page's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float

from flame.products.map_view import round_step

__all__ = ["Line", "line_plot"]

_WIDTH, _HEIGHT = 460, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 14, 40


@dataclass(frozen=True, eq=False)
class Line:
    """One curve.

    Attributes:
        y: Its values.
        kind: Class in the page's style: `inside`, `outside`, `measured`, `fitted` or `without`.
        label: In the legend.
        dots: Whether its points are marked.
    """

    y: Float[np.ndarray, " n"]
    kind: str
    label: str
    dots: bool = False


def line_plot(
    x: Float[np.ndarray, " n"],
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    about: str,
    between: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], str] | None = None,
) -> str:
    """An SVG of curves over one x axis.

    Args:
        x: Increasing.
        lines: The curves, drawn in this order.
        x_label: Under the x axis.
        y_label: Beside the y axis.
        about: The plot in words, for those who cannot see it.
        between: Two curves whose gap is filled, and what the gap is.
    """
    # Two bands of noise at the edge of the spectrum must not flatten all others.
    low = min(float(line.y.min() if not line.dots else np.percentile(line.y, 3)) for line in lines)
    high = max(float(line.y.max() if not line.dots else np.percentile(line.y, 97)) for line in lines)
    pad = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    frame = _Frame(float(x[0]), float(x[-1]), low - pad, high + pad)
    parts = [f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(about, quote=True)}">']
    parts += frame.axes(x_label, y_label)
    if between is not None:
        upper, lower, _ = between
        around = frame.points(np.concatenate([x, x[::-1]]), np.concatenate([upper, lower[::-1]]))
        parts.append(f'<polygon class="methane" points="{around}"/>')
    for line in lines:
        parts.append(f'<polyline class="line {line.kind}" points="{frame.points(x, line.y)}"/>')
        if line.dots:
            dots = frame.points(x, line.y).split(" ")
            marks = "".join(f'<circle cx="{a}" cy="{b}" r="1.7"/>' for a, b in (dot.split(",") for dot in dots))
            parts.append(f'<g class="dots {line.kind}">{marks}</g>')
    parts.append("</svg>")
    key = "".join(f'<li class="{line.kind}">{escape(line.label)}</li>' for line in lines)
    if between is not None:
        key += f'<li class="methane">{escape(between[2])}</li>'
    return f'<div class="plot-box">{"".join(parts)}<ul class="key">{key}</ul></div>'


@dataclass(frozen=True)
class _Frame:
    """Where values stand in the picture."""

    left: float
    right: float
    low: float
    high: float

    def points(self, x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> str:
        across = _LEFT + (x - self.left) / (self.right - self.left) * (_WIDTH - _LEFT - _RIGHT)
        y = np.clip(y, self.low, self.high)
        down = _HEIGHT - _BOTTOM - (y - self.low) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))

    def axes(self, x_label: str, y_label: str) -> list[str]:
        parts = []
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for value, text in _ticks(self.low, self.high, 4):
            y = self.points(np.array([self.left]), np.array([value])).split(",")[1]
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y}" dy="0.32em" text-anchor="end">{text}</text>')
        for value, text in _ticks(self.left, self.right, 6):
            x = self.points(np.array([value]), np.array([self.low])).split(",")[0]
            parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 4}"/>')
            parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{text}</text>')
        middle = (_TOP + bottom) / 2
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        parts.append(f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
        turned = f'transform="rotate(-90 12 {middle})"'
        parts.append(f'<text x="12" y="{middle}" text-anchor="middle" {turned}>{escape(y_label)}</text>')
        return parts


def _ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    step = round_step((high - low) / most)
    digits = max(0, int(np.ceil(-np.log10(step) - 1e-9)))
    marks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return [(float(mark), f"{mark + 0.0:.{digits}f}".replace("-", "−")) for mark in marks.round(digits)]
