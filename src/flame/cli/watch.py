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

    What an earlier run finished is not done again. The report tells of all scenes so far; the exit code is that of
    `flame detect`.
    """
    from rich.console import Console

    from flame.cli.outcomes import OutcomePrinter, closing_line, exit_code
    from flame.onboard import Detectors
    from flame.pipeline.detect import REPORT, detect_files
    from flame.pipeline.watch import WatchSettings, watch_folder

    console = Console(markup=False, highlight=False, soft_wrap=True)
    printer, detectors = OutcomePrinter(console), Detectors(model, runtime, threads, asked)
    outcomes: dict[str, Outcome] = {}
    checked = measure.absolute()  # once: a table that a mast still writes to must not end the watch
    there_before = (out / REPORT).exists()

    def told(outcome: Outcome) -> None:
        printer.told(outcome)
        outcomes[outcome.source] = outcome

    def detect(scenes: Sequence[Path]) -> list[Outcome]:
        return detect_files(scenes, out, detectors, told, options, measure=checked, earlier=list(outcomes.values()))

    console.print(f"watching {folder}; Ctrl-C ends")
    try:
        watch_folder(folder, detect, WatchSettings(every, settled, idle))
    except KeyboardInterrupt:
        console.print("stopped")
    good = sum(outcome.succeeded for outcome in outcomes.values())
    console.print(closing_line(f"{good} of {len(outcomes)} scenes done", good, out / REPORT, there_before))
    raise typer.Exit(exit_code(good, len(outcomes)))
