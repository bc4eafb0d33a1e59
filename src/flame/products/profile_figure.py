"""Figure of a profile: how latency is spread, and what the sensors said meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from flame.files import whole_file

__all__ = ["plot_profile"]


def plot_profile(
    path: Path,
    title: str,
    latency_ms: Sequence[float],
    series: Mapping[str, tuple[str, Sequence[float], Sequence[float]]],
    dpi: int = 130,
) -> None:
    """Draws latency over time and as a distribution, and each sensor's readings, into a PNG.

    Args:
        path: The PNG file.
        title: Headline.
        latency_ms: Every timed detection, in order.
        series: Unit, times in s and values of each sensor.
        dpi: Dots per inch.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    units = sorted({unit for unit, times, _ in series.values() if times})
    figure = Figure(figsize=(11, 3.2 + 2.6 * max(len(units), 0)), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(1 + len(units), 2, width_ratios=(3, 1))
    times = np.array(latency_ms)
    over, spread = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    over.plot(times, linewidth=0.7, color="#28587b")
    for share, style in ((50, "-"), (99, "--")):
        level = float(np.percentile(times, share))
        over.axhline(level, color="#b3402a", linestyle=style, linewidth=1, label=f"p{share}: {level:.1f} ms")
    over.legend(fontsize=8, loc="upper right")
    over.set(xlabel="detection", ylabel="latency of one tile (ms)", ylim=(0, None))
    spread.hist(times, bins=40, orientation="horizontal", color="#28587b")
    spread.set(xlabel="detections", ylim=over.get_ylim())
    for at, unit in enumerate(units, start=1):
        axes = figure.add_subplot(grid[at, :])
        for name, (own_unit, seconds, values) in series.items():
            if own_unit == unit and seconds:
                axes.plot(seconds, values, linewidth=1, label=name)
        label = {"W": "power (W)", "degC": "temperature (°C)"}.get(unit, unit)
        axes.set(xlabel="time since the first timed detection (s)", ylabel=label)
        axes.legend(fontsize=8, ncols=3)
    figure.suptitle(title, fontsize=11, parse_math=False)
    with whole_file(path) as partial:
        FigureCanvasAgg(figure).print_figure(partial, dpi=dpi, format="png")
