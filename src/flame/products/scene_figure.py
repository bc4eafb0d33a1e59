"""A scene as a thumbnail: its colours, and why pixels are masked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flame.files import whole_file
from flame.products.quicklook import stretched_rgb
from flame.scene import AnyScene, SceneFlag

__all__ = ["plot_scene"]

_MAX_SIDE = 1500


def plot_scene(path: Path, scene: AnyScene, title: str, dpi: int = 120) -> None:
    """Draws colours beside the masks into a PNG; of large scenes every n-th pixel.

    Args:
        path: The PNG file.
        scene: What to draw.
        title: Headline.
        dpi: Dots per inch.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    rows, cols = scene.shape
    step = max(1, -(-max(rows, cols) // _MAX_SIDE))
    height = float(np.clip(5.2 * rows / cols, 3.0, 14.0))
    figure = Figure(figsize=(11.0, height + 1.0), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    left.imshow(stretched_rgb(scene, step), extent=(0, cols, rows, 0), interpolation="nearest")
    left.set_title("RGB" if scene.has_rgb else "radiance", fontsize=10)
    layer = np.full((-(-rows // step), -(-cols // step), 3), 0.93, dtype=np.float32)
    flags = scene.flags
    legend = []
    if flags is not None:
        small = flags[::step, ::step]
        palette = _palette()
        for flag, colour in palette.items():
            here = (small & np.uint16(int(flag))) != 0
            if here.any():
                layer[here] = colour
                legend.append(Patch(color=colour, label=str(flag.name).lower()))
    right.imshow(layer, extent=(0, cols, rows, 0), interpolation="nearest")
    right.set_title("flags", fontsize=10)
    if legend:
        right.legend(handles=legend, fontsize=8, loc="upper right")
    figure.suptitle(title, fontsize=12)
    with whole_file(path) as partial:
        FigureCanvasAgg(figure).print_figure(partial, dpi=dpi, format="png")


def _palette() -> dict[SceneFlag, tuple[float, float, float]]:
    """A colour a cause; later ones are drawn over earlier ones."""
    from matplotlib import colormaps

    colours = colormaps["tab20"](np.linspace(0, 1, len(list(SceneFlag))))
    return {flag: (float(c[0]), float(c[1]), float(c[2])) for flag, c in zip(SceneFlag, colours, strict=True) if flag}
