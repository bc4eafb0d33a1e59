"""`flame info`: what a file is, and what FLAME would do with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flame.cli.groups import takes
from flame.cli.options import output_file
from flame.cli.outputs import refuse_overwriting
from flame.cli.scene_options import unit_options

if TYPE_CHECKING:
    from flame.io import OpenOptions


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    bands, place = facts["bands"], facts["geometry"]
    angles = [
        f"{name} {facts[key]:g}°"
        for name, key in (("sun", "solar_zenith_deg"), ("view", "view_zenith_deg"))
        if facts[key] is not None
    ]
    flagged = [f"{name} {100 * share:.2f} %" for name, share in facts["flagged_share"].items()]
    smile = "" if bands["smile_nm"] is None else f", smile {bands['smile_nm']:g} nm across the columns"
    where = "not known"
    if place is not None:
        centre = "not known at the centre"
        if math.isfinite(place["centre_latitude"]):
            centre = f"{place['centre_latitude']:.5f}, {place['centre_longitude']:.5f} at the centre"
        size = f", pixels of {place['pixel_m']:g} m" if math.isfinite(place["pixel_m"]) else ""
        where = f"{centre}{size}, {place['crs'][:40]}, from {place['from']}"
        where += ", with a look-up table for maps" if place["look_up_table"] else ""
    return [
        ("format", f"{facts['format']}: {facts['what']}"),
        ("sensor", facts["sensor"] or "not stated"),
        ("time", facts["time"] or "not stated"),
        ("size", f"{facts['rows']} lines x {facts['columns']} columns"),
        (
            "bands read",
            f"{bands['count']} from {bands['first_nm']:g} to {bands['last_nm']:g} nm, FWHM {bands['fwhm_nm'][0]:g} to "
            f"{bands['fwhm_nm'][1]:g} nm, {'with' if bands['rgb'] else 'without'} RGB{smile}",
        ),
        ("unit", facts["notes"].get("radiance_unit", facts["unit"])),
        ("zenith angles", ", ".join(angles) or "not stated"),
        ("position", where),
        ("usable", f"{100 * facts['usable_share']:.2f} % of the pixels"),
        ("flagged", ", ".join(flagged) or "nothing"),
        ("masks", facts["notes"].get("masks", "the product's own, and tests on the radiance")),
        ("model", facts["would_run"]["model"]),
        ("filter", facts["would_run"]["filter"]),
    ]


@takes(options=unit_options)
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Scene file, product folder or tile folder.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for a program instead of lines for a person.")
    ] = False,
    plot: Annotated[Path | None, output_file("PNG file for a thumbnail with the masks.")] = None,
    *,
    options: OpenOptions,
) -> None:
    """Tell what a file is: bands, unit, geometry, masks, usable share, and which model or filter would run."""
    from flame.files import json_text
    from flame.pipeline.info import describe_file

    refuse_overwriting([plot], [file])
    facts, scene = describe_file(file, options)
    if plot is not None:
        from flame.products.scene_figure import plot_scene

        plot_scene(plot, scene, file.name)
    if as_json:
        typer.echo(json_text(facts), nl=False)
        return
    console = Console(highlight=False)
    console.print(Text(str(file)), soft_wrap=True)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, words in _lines(facts):
        table.add_row(name, Text(words))
    console.print(table)
    if plot is not None:
        console.print(Text(f"wrote {plot}"), soft_wrap=True)
