"""`flame detect`: scene files to plumes on a map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flame.cli.options import ModelName, Runtime, Threads, output_folder
from flame.cli.scene_options import (
    KeepCirrus,
    KeepCloud,
    KeepFlare,
    KeepSaturated,
    KeepSnow,
    KeepWater,
    ScaleOption,
    UnitOption,
    open_options,
)
from flame.errors import FlameError


def _checked_fields(names: list[str] | None) -> list[str]:
    from flame.products.fields import FIELD_SETS

    if unknown := sorted(set(names or ()) - set(FIELD_SETS)):
        raise FlameError(f"no field names '{unknown[0]}'; known are {', '.join(FIELD_SETS)}")
    return list(dict.fromkeys(names or ()))


def run(
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT", help="Scene files or tile folders, one or more.")],
    out: Annotated[Path, output_folder("Folder for the results: one folder per input, and report.html.")],
    model: ModelName = None,
    runtime: Runtime = "auto",
    threads: Threads = None,
    unit: UnitOption = None,
    scale: ScaleOption = None,
    keep_water: KeepWater = False,
    keep_cloud: KeepCloud = False,
    keep_cirrus: KeepCirrus = False,
    keep_snow: KeepSnow = False,
    keep_flare: KeepFlare = False,
    keep_saturated: KeepSaturated = False,
    downlink: Annotated[
        bool, typer.Option("--downlink", help="Also write the plumes as small packets for a radio link.")
    ] = False,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--fields",
            metavar="NAME",
            help="Also write the plumes with the field names of emit or carbonmapper; may be repeated.",
            callback=_checked_fields,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Do inputs again that an earlier run finished.")] = False,
) -> None:
    """Find methane plumes in scenes.

    Writes, for each input, a report to look at, maps (enhancement in ppm m, sigma, probability, mask, quality) as
    GeoTIFF and netCDF, the plumes as GeoJSON and CSV and a STAC item, and a page and tables over all. An input that
    fails does not stop the others; the exit code is then 3.
    """
    from rich.console import Console

    from flame.cli.app import EXIT_MISTAKE, EXIT_PARTLY_FAILED, EXIT_STOPPED, print_error
    from flame.cli.progress import counting
    from flame.onboard import Detectors
    from flame.pipeline.detect import REPORT, Outcome, detect_files

    console = Console(markup=False, highlight=False, soft_wrap=True)
    good = 0
    options = open_options(
        unit,
        scale,
        water=keep_water,
        cloud=keep_cloud,
        cirrus=keep_cirrus,
        snow=keep_snow,
        flare=keep_flare,
        saturated=keep_saturated,
    )
    with counting(console, "scenes", len(inputs)) as step:

        def told(outcome: Outcome) -> None:
            nonlocal good
            good += outcome.succeeded
            if outcome.failure is not None:
                print_error(outcome.failure)
            elif outcome.state == "kept":
                console.print(f"{outcome.source}: {outcome.plumes} plumes, finished before (--force does it again)")
            else:
                console.print(f"{outcome.source}: {outcome.plumes} plumes, {outcome.seconds:.2f} s, {outcome.model}")
            if (saved := outcome.downlink) is not None and downlink:
                console.print(
                    f"  downlink: {saved.packet_bytes} bytes of packets for {saved.scene_bytes / 1e6:.1f} MB of "
                    f"radiance, {saved.packets_only:,.0f} times less; {saved.with_blocks:.1f} times with the "
                    f"{saved.raw_blocks} raw blocks that hold plumes"
                )
            step()

        stopped = False
        try:
            detect_files(
                inputs,
                out,
                Detectors(model, runtime, threads),
                told,
                options,
                downlink=downlink,
                fields=fields or (),
                force=force,
            )
        except KeyboardInterrupt:
            stopped = True
    console.print(f"{good} of {len(inputs)} inputs done{', stopped' if stopped else ''}: {out / REPORT}")
    if stopped:
        raise typer.Exit(EXIT_STOPPED)
    if good < len(inputs):
        raise typer.Exit(EXIT_PARTLY_FAILED if good else EXIT_MISTAKE)
