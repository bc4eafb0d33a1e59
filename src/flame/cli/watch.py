"""`flame watch`: detects in files as they arrive."""

from __future__ import annotations

from collections.abc import Sequence
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
    from flame.pipeline.detect import Outcome
    from flame.pipeline.measure import MeasureSettings


@takes(asked=asked_options, options=scene_options, measure=measure_options)
def run(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where scenes arrive.", exists=True, file_okay=False)
    ],
    out: Annotated[Path, output_folder("Folder for the results, as in `flame detect`.")],
    model: ModelName = None,
    runtime: Runtime = "auto",
    threads: Threads = None,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time between two looks.")] = 2.0,
    settled: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Take a scene once it has not changed for so long.")
    ] = 5.0,
    idle: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="SECONDS", help="End after so long without a new scene. By default never."),
    ] = None,
    *,
    asked: Asked,
    options: OpenOptions,
    measure: MeasureSettings,
) -> None:
    """Find methane plumes in scenes as they arrive in a folder; Ctrl-C ends it.

    What an earlier run finished is not done again. The report is written anew after each scene.
    """
    from rich.console import Console

    from flame.cli.outcomes import OutcomePrinter
    from flame.onboard import Detectors
    from flame.pipeline.detect import REPORT, detect_files, write_scene_report
    from flame.pipeline.watch import WatchSettings, watch_folder

    console = Console(markup=False, highlight=False, soft_wrap=True)
    printer, detectors = OutcomePrinter(console), Detectors(model, runtime, threads, asked)
    all_outcomes: dict[str, Outcome] = {}

    def detect(scenes: Sequence[Path]) -> list[Outcome]:
        found = detect_files(scenes, out, detectors, printer.told, options, measure=measure)
        all_outcomes.update({outcome.source: outcome for outcome in found})
        write_scene_report(out / REPORT, list(all_outcomes.values()))
        return found

    console.print(f"watching {folder}; Ctrl-C ends")
    try:
        watch_folder(folder, detect, WatchSettings(every, settled, idle))
    except KeyboardInterrupt:
        console.print("stopped")
    good = sum(outcome.succeeded for outcome in all_outcomes.values())
    console.print(f"{good} of {len(all_outcomes)} scenes done: {out / REPORT}")
