"""A contact sheet of labelled tiles: RGB, enhancement, label and MAG1C, one row per tile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flame.errors import FlameError
from flame.files import whole_file
from flame.filters import mag1c
from flame.products.quicklook import stretched_rgb
from flame.tile import LabelledTile

__all__ = ["contact_sheet"]

_COLUMNS = ("RGB", "true enhancement", "label", "MAG1C")
_TILES_ABREAST = 2


def contact_sheet(tiles: Sequence[LabelledTile], out: Path | str, peak_ppm_m: float = 4000.0) -> Path:
    """Writes the sheet as a PNG.

    Args:
        tiles: What to show, two tiles in a row.
        out: The file.
        peak_ppm_m: Enhancement shown as white.
    """
    if not tiles:
        raise FlameError("a contact sheet needs at least one tile")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-len(tiles) // _TILES_ABREAST)
    width = _TILES_ABREAST * len(_COLUMNS)
    figure = Figure(figsize=(1.75 * width, 1.85 * rows + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.atleast_2d(figure.subplots(rows, width))
    for axis in axes.flat:
        axis.set_axis_off()
    for number, tile in enumerate(tiles):
        row, left = number // _TILES_ABREAST, number % _TILES_ABREAST * len(_COLUMNS)
        scene = tile.scene.methane()
        retrieved = mag1c.score(scene.radiance, scene.bands, scene.valid)
        truth = tile.enhancement_ppm_m if tile.enhancement_ppm_m is not None else np.zeros(scene.shape)
        layers = (stretched_rgb(tile.scene), truth, tile.label, retrieved)
        for place, (title, layer) in enumerate(zip(_COLUMNS, layers, strict=True)):
            axis = axes[row, left + place]
            top = 1.0 if layer.dtype == np.bool_ else peak_ppm_m
            axis.imshow(layer, cmap="gray" if top == 1.0 else "inferno", vmin=0, vmax=top, interpolation="nearest")
            axis.set_title(title if row == 0 else "", fontsize=8)
        rate = f"{tile.emission_kg_h:.0f} kg/h" if tile.emission_kg_h else "no plume"
        axes[row, left].text(2, 10, rate, color="white", fontsize=6)
    path = Path(out)
    with whole_file(path) as partial:
        figure.savefig(partial, format="png", dpi=130)
    return path
