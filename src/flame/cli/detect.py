"""`flame detect`: scene files to plumes on a map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flame.cli.options import ModelName, Runtime, Threads, output_folder


def run(
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT", help="Scene files or tile folders, one or more.")],
    out: Annotated[Path, output_folder("Folder for the results: one folder per input, and report.html.")],
    model: ModelName = None,
    runtime: Runtime = "auto",
    threads: Threads = None,
    downlink: Annotated[
        bool, typer.Option("--downlink", help="Also write the plumes as small packets for a radio link.")
    ] = False,
) -> None:
    """Find methane plumes in scenes.

    Writes, for each input, GeoTIFF maps (probability, methane score in ppm m, plume mask), the plumes as GeoJSON and a
    quick look, and one HTML report for all. An input that fails does not stop the others; the exit code is then 3.
    """
    from rich.console import Console
    from rich.markup import escape

    from flame.cli.app import EXIT_MISTAKE, EXIT_PARTLY_FAILED
    from flame.cli.progress import counting
    from flame.pipeline.detect import Detectors, Outcome, detect_files, write_downlink

    console, errors = Console(), Console(stderr=True)
    with counting(console, "scenes", len(inputs)) as step:

        def told(outcome: Outcome) -> None:
            if outcome.detection is None:
                errors.print(f"[bold red]error:[/] {escape(str(outcome.failure))}", highlight=False, soft_wrap=True)
            else:
                seconds = outcome.detection.timings.total_s
                count = len(outcome.detection.plumes)
                console.print(f"{outcome.source}: {count} plumes, {seconds:.2f} s", markup=False, soft_wrap=True)
                if downlink:
                    saved = write_downlink(outcome.folder / "downlink.bin", outcome.detection, outcome.bands)
                    console.print(
                        f"  downlink: {saved.packet_bytes} bytes of packets for {saved.scene_bytes / 1e6:.1f} MB of "
                        f"radiance, {saved.packets_only:,.0f} times less; {saved.with_blocks:.1f} times with the "
                        f"{saved.raw_blocks} raw blocks that hold plumes",
                        soft_wrap=True,
                    )
            step()

        outcomes = detect_files(inputs, out, Detectors(model, runtime, threads), told)
    failed = sum(outcome.detection is None for outcome in outcomes)
    console.print(
        f"{len(outcomes) - failed} of {len(outcomes)} inputs done: {out / 'report.html'}", markup=False, soft_wrap=True
    )
    if failed:
        raise typer.Exit(EXIT_MISTAKE if failed == len(outcomes) else EXIT_PARTLY_FAILED)
