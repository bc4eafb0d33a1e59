"""`flame export`: from a trained run to a model package that flies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    source: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of `flame train`, or a model.safetensors.")],
    out: Annotated[Path, typer.Option(help="ONNX file to write; its manifest (.json) goes beside it.")],
    tile: Annotated[int, typer.Option(min=16, help="Side of the tile in pixels; fixed in the graph.")] = 512,
    name: Annotated[str, typer.Option(help="Name of the model in the manifest.")] = "flame",
    check: Annotated[
        list[Path] | None, typer.Option(help="Scene to compare with torch on; simulated tiles unless given.")
    ] = None,
    metrics: Annotated[Path | None, typer.Option(help="metrics.json of `flame evaluate` for the manifest.")] = None,
    note: Annotated[
        list[str] | None, typer.Option(help="Provenance for the manifest as KEY=VALUE, such as commit=1a2b3c.")
    ] = None,
) -> None:
    """Write a trained model as ONNX with its manifest, after checking it against torch on every runtime here."""
    from rich.console import Console

    from flame.errors import FlameError
    from flame.io import read_scene
    from flame.pipeline.export import export_model
    from flame.records import read_json

    notes = dict(entry.partition("=")[::2] for entry in note or [])
    if not all(notes.values()):
        raise FlameError(f"notes are KEY=VALUE, got {note}")
    figures = None if metrics is None else read_json(metrics, "the metrics of `flame evaluate`")
    console = Console()
    path, agreements = export_model(source, out, tile, name, [read_scene(p) for p in check or []], notes, figures)
    for found in agreements:
        console.print(
            f"{found.runtime}: within {found.max_difference:.1e} of torch on {found.tiles} tiles, "
            f"masks equal ({found.plume_pixels} plume pixels)",
            soft_wrap=True,
        )
    console.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", markup=False, soft_wrap=True)
