"""`flame filter`: one classical filter on one scene or tile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import numpy as np
import typer
from jaxtyping import Float32
from rich.console import Console

from flame.cli.groups import takes
from flame.cli.options import completing, output_file
from flame.cli.outputs import refuse_overwriting
from flame.cli.scene_options import scene_options
from flame.errors import FlameError
from flame.files import whole_file
from flame.filters import FILTERS, LINEAR, Filter, Mag1cSettings, filter_layers, filter_named
from flame.filters.target import TargetRule

if TYPE_CHECKING:
    from flame.io import OpenOptions
    from flame.scene import AnyScene


def _chosen(method: str, target: str | None) -> Filter:
    """The filter asked for; `mf --target additive` is `mf-additive`."""
    chosen = filter_named(method)
    if target is None:
        return chosen
    if chosen.name not in LINEAR:
        raise FlameError(f"--target belongs to {', '.join(LINEAR)}, not to {chosen.name}")
    if target not in get_args(TargetRule):
        raise FlameError(f"no target '{target}'; known are {', '.join(get_args(TargetRule))}")
    return chosen if target == "multiplicative" else filter_named(f"{chosen.name}-{target}")


def _settings(name: str, columns: int | None) -> Mag1cSettings | None:
    if columns is not None and name != "mag1c":
        raise FlameError(f"--columns belongs to mag1c, not to {name}")
    return None if columns is None else Mag1cSettings(column_group=columns)


def _plot(path: Path, scene: AnyScene, score: Float32[np.ndarray, "row col"], method: Filter) -> None:
    """The image in colour beside the score, drawn from zero to a little above the threshold's scale."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from flame.products.quicklook import stretched_rgb

    figure = Figure(figsize=(11.0, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    left.imshow(stretched_rgb(scene), interpolation="nearest")
    left.set_title("RGB" if scene.has_rgb else "radiance")
    top = max(float(np.quantile(score[scene.valid], 0.999)), 2 * (method.threshold or 0.0), 1e-6)
    image = right.imshow(
        np.where(scene.valid, score, np.nan), vmin=0, vmax=top, cmap="inferno", interpolation="nearest"
    )
    right.set_title(method.title)
    figure.colorbar(image, ax=right, label=method.unit, fraction=0.046)
    with whole_file(path) as partial:
        FigureCanvasAgg(figure).print_figure(partial, dpi=120, format="png")


@takes(options=scene_options)
def run(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            help=f"One of {', '.join(FILTERS)}.",
            autocompletion=completing(lambda: list(FILTERS)),
        ),
    ],
    scene_path: Annotated[Path, typer.Argument(metavar="INPUT", help="A scene file or a tile folder.")],
    out: Annotated[
        Path, output_file("GeoTIFF file for the score; noise-aware-mf writes its other maps beside it, as *_sigma.tif.")
    ],
    columns: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Only for mag1c: columns that share one background. By default all."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Only for cem, mf, ace: which target spectrum, {' or '.join(get_args(TargetRule))}; see the docs.",
            autocompletion=completing(lambda: get_args(TargetRule)),
        ),
    ] = None,
    plot: Annotated[Path | None, output_file("PNG file for a picture of scene and score.")] = None,
    *,
    options: OpenOptions,
) -> None:
    """Run a classical methane filter on one scene; works with the bands of any sensor."""
    from flame.io import open_scene
    from flame.products.geolocate import map_grid
    from flame.products.geotiff import write_cog

    refuse_overwriting([out, plot], [scene_path])
    chosen = _chosen(method, target)
    settings = _settings(chosen.name, columns)
    scene = open_scene(scene_path, options).methane()
    layers = filter_layers(chosen, scene, settings)
    valid = scene.valid
    written = [out, *(out.with_stem(f"{out.stem}_{name}") for name in list(layers)[1:])]
    refuse_overwriting([*written, plot], [scene_path])  # the maps beside the score, known by now
    for path, (name, layer) in zip(written, layers.items(), strict=True):
        what = f"{chosen.title}, {name}" if len(layers) > 1 else chosen.title
        shown = valid & np.isfinite(layer)
        write_cog(path, layer, shown, map_grid(scene.geo), f"{what} ({chosen.unit})", {"filter": chosen.name})
    score = next(iter(layers.values()))

    console = Console(highlight=False, markup=False, soft_wrap=True)
    values = score[valid]
    rows, cols = scene.shape
    console.print(
        f"{chosen.title} on {scene_path}: {rows} x {cols} pixels, {values.size} valid, {scene.bands.describe()}"
    )
    console.print(f"{chosen.unit}: min {values.min():.5g}, median {np.median(values):.5g}, max {values.max():.5g}")
    if chosen.threshold is not None:
        above = int(np.count_nonzero(values > chosen.threshold))
        console.print(f"above the canonical threshold of {chosen.threshold:g}: {above} pixels")
    console.print(f"wrote {', '.join(map(str, written))}")
    if plot is not None:
        _plot(plot, scene, score, chosen)
        console.print(f"wrote {plot}")
