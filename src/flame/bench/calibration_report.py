"""The calibration as a table for the terminal and a figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table

from flame.bench.calibration import Comparison
from flame.bench.calibration_filters import AIMS, PARTS, FilterFigures, met_aims, probes
from flame.files import whole_file

__all__ = ["comparison_table", "filter_table", "plot_comparison"]


def comparison_table(comparison: Comparison) -> Table:
    """Simulated and reference figures side by side."""
    ours, theirs = comparison.simulated, comparison.reference
    table = Table("figure", ours.source, theirs.source, title="calibration of the simulator")
    low, middle, high = np.quantile(ours.tile_noise_ppm_m, [0.1, 0.5, 0.9])
    table.add_row("matched-filter noise of a tile, 10-50-90 % (ppm m)", f"{low:.0f} - {middle:.0f} - {high:.0f}", "-")
    table.add_row("same of the mean covariance (ppm m)", f"{ours.noise_ppm_m:.0f}", f"{theirs.noise_ppm_m:.0f}")
    for rank in (1, 2, 3, 5, 10, 20):
        if rank <= comparison.eigenvalue_ratios.size:
            table.add_row(
                f"relative eigenvalue {rank}",
                f"{ours.eigenvalues[rank - 1]:.3g}",
                f"{theirs.eigenvalues[rank - 1]:.3g}",
            )
    table.add_row("worst ratio of the first 20", f"{comparison.eigenvalue_worst_ratio:.2f}", "1")
    table.add_row("condition number", f"{ours.condition_number:.3g}", f"{theirs.condition_number:.3g}")
    table.add_row("mean spectrum, rms log difference", f"{comparison.shape_error:.3f}", "0")
    table.add_row("mean level of radiance, ratio", f"{comparison.level_ratio:.2f}", "1")
    table.add_row("plume pixels (%)", f"{100 * ours.plume_pixel_share:.2f}", f"{100 * theirs.plume_pixel_share:.2f}")
    table.add_row("plume tiles (%)", f"{100 * ours.plume_tile_share:.0f}", f"{100 * theirs.plume_tile_share:.0f}")
    return table


def filter_table(comparison: Comparison) -> Table | None:
    """Classical filters on simulated tiles beside the reference's; a star marks what is farther off than aimed for."""
    ours, theirs = comparison.simulated.filters, comparison.reference.filters
    if ours is None or theirs is None:
        return None
    met, count = met_aims(ours, theirs)
    table = Table(
        "tiles", "filter", *_HEADINGS.values(),
        title=f"classical filters, simulated / {comparison.reference.source}",
        caption=f"{met} of {count} figures as near as aimed for; * marks the others. Precision, recall and false "
        "alarms: canonical threshold, opened by the 3x3 cross. Area and best threshold: the score itself.",
    )  # fmt: skip
    for part in PARTS:
        for probe, mine, real in zip(probes(), ours[part], theirs[part], strict=True):
            if mine is not None and real is not None:
                table.add_row(part, probe.title, *(_beside(name, mine, real) for name in _HEADINGS))
        table.add_section()
    return table


_HEADINGS = {
    "precision": "precision",
    "recall": "recall",
    "pixel_fpr": "false alarms, 1e-4",
    "auprc": "AUPRC",
    "best_threshold": "best threshold",
    "best_f1": "best F1",
}


def _beside(name: str, ours: FilterFigures, theirs: FilterFigures) -> str:
    mine, real = (float(getattr(figures, name)) for figures in (ours, theirs))
    mark = "" if name not in AIMS or AIMS[name].met(mine, real) else " *"
    scale, digits = (1e4, ".1f") if name == "pixel_fpr" else (1.0, ".4g" if name == "best_threshold" else ".3f")
    return f"{scale * mine:{digits}} / {scale * real:{digits}}{mark}"


def plot_comparison(comparison: Comparison, out: Path | str) -> Path:
    """Eigenvalues, mean spectrum and the spread of matched-filter noise as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ours, theirs = comparison.simulated, comparison.reference
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    for part in (theirs, ours):
        left.semilogy(np.arange(1, part.eigenvalues.size + 1), part.eigenvalues, label=part.source)
        middle.plot(part.wavelength_nm, part.mean_radiance / part.mean_radiance.mean(), label=part.source)
    left.set(xlabel="rank", ylabel="relative covariance eigenvalue")
    left.legend(fontsize=8)
    middle.set(xlabel="wavelength (nm)", ylabel="mean radiance / its mean")
    right.hist(ours.tile_noise_ppm_m, bins=30, color="C1")
    right.set(xlabel="matched-filter noise of a tile (ppm m)", ylabel="tiles")
    path = Path(out)
    with whole_file(path) as partial:
        figure.savefig(partial, format="png", dpi=130)
    return path
