"""`flame export`: from a trained run to a model package that flies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flame.cli.options import input_path, output_file, require_torch, trained_model
from flame.cli.outputs import refuse_overwriting


def run(
    source: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder of `flame train`, or its model.safetensors.")
    ],
    out: Annotated[Path, output_file("The .onnx file to write; the manifest (.json) and weights go beside it.")],
    tile: Annotated[
        int,
        typer.Option(min=16, metavar="N", help="Rows and columns of the model's tile, in pixels; cannot change later."),
    ] = 512,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the model in the manifest.")] = "flame",
    check: Annotated[
        list[Path] | None,
        input_path("Compare with PyTorch on this scene, not on simulated ones; may be repeated.", metavar="SCENE"),
    ] = None,
    metrics: Annotated[Path | None, input_path("metrics.json of `flame evaluate`, kept in the manifest.")] = None,
    note: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A fact for the manifest, such as commit=1a2b3c; may be repeated."),
    ] = None,
) -> None:
    """Turn a trained run into a model file that `flame detect` and a flight computer can use.

    The file is compared with PyTorch on every runtime installed here, and written only if all agree.
    """
    require_torch("flame export")
    from rich.console import Console

    from flame.errors import FlameError
    from flame.io import read_scene
    from flame.pipeline.export import export_model
    from flame.records import read_json

    weights = None if source.is_dir() else source  # a run's folder may well take its own export
    refuse_overwriting([out, out.with_suffix(".json")], [weights, metrics, *(check or ())])
    notes = dict(entry.partition("=")[::2] for entry in note or [])
    if not all(notes.values()):
        raise FlameError(f"write each --note as KEY=VALUE, such as commit=1a2b3c; got {', '.join(note or [])}")
    figures = None if metrics is None else read_json(metrics, "the metrics of `flame evaluate`")
    console = Console()
    path, agreements = export_model(
        trained_model(source), out, tile, name, [read_scene(p) for p in check or []], notes, figures
    )
    for found in agreements:
        console.print(
            f"{found.runtime}: within {found.max_difference:.1e} of torch on {found.tiles} tiles, "
            f"masks equal ({found.plume_pixels} plume pixels)",
            soft_wrap=True,
        )
    console.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", markup=False, soft_wrap=True)
