"""`flame detect`: scene files to plumes on a map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flame.cli.asked_options import asked_options
from flame.cli.groups import takes
from flame.cli.measure_options import measure_options
from flame.cli.options import ModelName, Runtime, Threads, output_folder
from flame.cli.scene_options import scene_options

if TYPE_CHECKING:
    from flame.io import OpenOptions
    from flame.onboard import Asked
    from flame.pipeline.measure import MeasureSettings
    from flame.pipeline.runners import Runner


def _checked_fields(names: list[str] | None) -> list[str]:
    from flame.errors import FlameError
    from flame.products.fields import FIELD_SETS

    if unknown := sorted(set(names or ()) - set(FIELD_SETS)):
        raise FlameError(f"no field names '{unknown[0]}'; known are {', '.join(FIELD_SETS)}")
    return list(dict.fromkeys(names or ()))


@takes(asked=asked_options, options=scene_options, measure=measure_options)
def run(
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="INPUT", help="Scene files, tile or product folders, or folders full of these."),
    ],
    out: Annotated[Path, output_folder("Folder for the results: one folder per input, and report.html.")],
    model: ModelName = None,
    runtime: Runtime = "auto",
    threads: Threads = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, metavar="N", help="Scenes worked on at once, each by its own process.")
    ] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Work on the Dask cluster of this scheduler, as in tcp://10.0.0.1:8786."),
    ] = None,
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
    *,
    asked: Asked,
    options: OpenOptions,
    measure: MeasureSettings,
) -> None:
    """Find methane plumes in scenes.

    Writes, for each input, a report to look at, maps (enhancement in ppm m, sigma, probability, mask, quality) as
    GeoTIFF and netCDF, the plumes with mass and emission rate as GeoJSON and CSV and a STAC item, and a page and tables
    over all. Folders are walked for scenes. An input that fails does not stop the others; the exit code is then 3.
    """
    from rich.console import Console

    from flame.cli.app import EXIT_STOPPED
    from flame.cli.outcomes import OutcomePrinter, closing_line, exit_code
    from flame.cli.progress import counting
    from flame.onboard import Detectors
    from flame.pipeline.detect import REPORT, Outcome, detect_files
    from flame.pipeline.find_scenes import find_scenes

    console = Console(markup=False, highlight=False, soft_wrap=True)
    runner, threads = _runner(workers, scheduler, threads)
    detectors = Detectors(model, runtime, threads, asked)
    scenes, there_before = find_scenes(inputs), (out / REPORT).exists()
    printer = OutcomePrinter(console, downlink, force=True)
    with counting(console, "scenes", len(scenes)) as step:

        def told(outcome: Outcome) -> None:
            printer.told(outcome)
            step()

        stopped = False
        try:
            detect_files(
                *(scenes, out, detectors, told, options),
                measure=measure,
                downlink=downlink,
                fields=fields or (),
                force=force,
                runner=runner,
            )
        except KeyboardInterrupt:
            stopped = True
    good = printer.good
    done = f"{good} of {len(scenes)} inputs done{', stopped' if stopped else ''}"
    console.print(closing_line(done, good, out / REPORT, there_before))
    raise typer.Exit(EXIT_STOPPED if stopped else exit_code(good, len(scenes)))


def _runner(workers: int, scheduler: str | None, threads: int | None) -> tuple[Runner, int | None]:
    """Where to work, and the threads of each worker: the cores shared out, unless the user says otherwise."""
    from flame.errors import FlameError
    from flame.onboard.backends import chosen_threads
    from flame.pipeline.runners import here, on_cluster, on_processes

    if scheduler is not None:
        if workers > 1:
            raise FlameError("--workers is for this machine, --scheduler for a cluster; give one of them")
        return on_cluster(scheduler), threads
    if workers == 1:
        return here, threads
    each = threads or max(1, chosen_threads(None) // workers)
    return on_processes(workers, each), each
