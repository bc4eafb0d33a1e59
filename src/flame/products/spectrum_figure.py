"""The paper's absorption figure: what a sensor sees of methane, and why multispectral bands cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float

from flame.files import whole_file
from flame.physics import METHANE_WINDOW_NM, BandSet, methane_table

__all__ = ["MULTISPECTRAL_BANDS_NM", "plot_absorption"]

MULTISPECTRAL_BANDS_NM: dict[str, tuple[tuple[str, float, float], ...]] = {
    "Sentinel-2": (("B11", 1568.0, 1659.0), ("B12", 2115.0, 2290.0)),
    "WorldView-3": (
        ("S2", 1550.0, 1590.0),
        ("S3", 1640.0, 1680.0),
        ("S4", 1710.0, 1750.0),
        ("S5", 2145.0, 2185.0),
        ("S6", 2185.0, 2225.0),
        ("S7", 2235.0, 2285.0),
        ("S8", 2295.0, 2365.0),
    ),
}
"""SWIR bands of the two multispectral sensors in the paper's figure, in nm (ESA and Maxar product guides)."""

_SHOWN_ENHANCEMENT_PPM_M = 8000.0


def plot_absorption(
    bands: BandSet, unit_spectrum: Float[np.ndarray, " band"], title: str, out: Path, dpi: int = 150
) -> None:
    """Draw fine transmittance, the sensor's unit absorption and the multispectral bands into a PNG.

    Args:
        bands: The sensor's bands.
        unit_spectrum: `unit_absorption(bands)`, per 100,000 ppm m.
        title: Name of the sensor.
        out: The PNG file.
        dpi: Dots per inch.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    low_nm = min(METHANE_WINDOW_NM[0], float(bands.centres_nm[0])) - 15
    high_nm = max(METHANE_WINDOW_NM[1], float(bands.centres_nm[-1])) + 15
    table = methane_table()
    shown = (table.wavelength_nm >= low_nm) & (table.wavelength_nm <= high_nm)
    fine = np.exp(-table.absorbance_at(np.array([_SHOWN_ENHANCEMENT_PPM_M]))[0, shown])

    figure = Figure(figsize=(9, 5), layout="constrained")
    FigureCanvasAgg(figure)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.4, 1])
    top.plot(table.wavelength_nm[shown], fine, color="#9aa7b5", linewidth=0.5, label="line by line")
    top.set_ylabel(f"transmittance of\n{_SHOWN_ENHANCEMENT_PPM_M:,.0f} ppm m")
    top.set_title(f"Methane absorption as {title} sees it", parse_math=False)
    base = float(fine.min())
    for row, (name, multispectral) in enumerate(MULTISPECTRAL_BANDS_NM.items()):
        height = base - 0.06 * (row + 1)
        colour = ("#d1495b", "#edae49")[row % 2]
        labelled = False
        for band_name, first_nm, last_nm in multispectral:
            if last_nm < low_nm or first_nm > high_nm:
                continue
            top.broken_barh([(first_nm, last_nm - first_nm)], (height, 0.045), color=colour, alpha=0.85,
                            label=None if labelled else name)  # fmt: skip
            top.text((max(first_nm, low_nm) + min(last_nm, high_nm)) / 2, height + 0.021, band_name, fontsize=7,
                     ha="center", va="center")  # fmt: skip
            labelled = True
    top.legend(loc="lower left", fontsize=8, ncols=3, framealpha=0.9)
    top.set_ylim(base - 0.25, 1.02)
    bottom.axhline(0, color="0.8", linewidth=0.8)
    bottom.plot(bands.centres_nm, unit_spectrum, "o-", color="#00798c", markersize=3, linewidth=1)
    bottom.set_ylabel("unit absorption s\n(per 100,000 ppm m)")
    bottom.set_xlabel("wavelength (nm)")
    bottom.set_xlim(low_nm, high_nm)
    with whole_file(out) as partial:
        figure.savefig(partial, dpi=dpi, format="png")
