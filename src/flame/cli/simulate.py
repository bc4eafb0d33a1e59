"""`flame simulate`: labelled tiles in the STARCOP layout, and how far they are from real ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flame.cli.options import (
    DEFAULT_SENSOR,
    Background,
    Preset,
    Seed,
    SimulatedSensor,
    TileSize,
    Workers,
    input_path,
    output_file,
    output_folder,
)
from flame.cli.outputs import refuse_overwriting
from flame.errors import FlameError
from flame.files import write_json

if TYPE_CHECKING:
    from flame.pipeline.datasets import SimulationPlan

_SHEET_TILES = 12


def run(
    out: Annotated[
        Path | None, output_folder("Folder for the tiles: one folder per tile, train.csv and test.csv.")
    ] = None,
    tiles: Annotated[int, typer.Option(min=1, metavar="N", help="Number of tiles.")] = 60,
    size: TileSize = 128,
    sensor: SimulatedSensor = None,
    seed: Seed = 0,
    preset: Preset = "wide",
    background: Background = None,
    background_noise: Annotated[
        bool, typer.Option(help="Whether to add sensor noise to a real scene; one with its own noise needs none.")
    ] = True,
    test_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, metavar="SHARE", help="Share of the tiles kept for testing, 0 to 1.")
    ] = 0.2,
    workers: Workers = None,
    check: Annotated[bool, typer.Option("--check", help="Compare the simulated tiles with real ones.")] = False,
    reference: Annotated[
        Path | None,
        input_path("--check: folder of real tiles. By default STARCOP's published figures.", metavar="FOLDER"),
    ] = None,
    json: Annotated[Path | None, output_file("--check: JSON file for the comparison.")] = None,
    plot: Annotated[Path | None, output_file("--check: PNG file for the comparison.")] = None,
    sheet: Annotated[
        Path | None, output_file("PNG file for a picture of up to 12 tiles with their plumes.", "--contact-sheet")
    ] = None,
) -> None:
    """Make labelled tiles with methane plumes, for training and testing.

    The tiles are written in the layout of the STARCOP data set. `--background` puts plumes into a real scene instead of
    simulated ground. `--check` compares the tiles with real ones.
    """
    from flame.pipeline.backgrounds import require_sensor
    from flame.pipeline.datasets import SimulationPlan

    if out is None and not check and sheet is None:
        raise FlameError("nothing to do: give --out FOLDER, --check or --contact-sheet FILE")
    if not check and (reference or json or plot):
        raise FlameError("--reference, --json and --plot belong to --check")
    refuse_overwriting([json, plot, sheet], background or ())
    backgrounds = tuple(str(path) for path in background or ())
    if sensor is not None:
        require_sensor(backgrounds, sensor)
    plan = SimulationPlan(
        tiles=tiles,
        seed=seed,
        preset=preset,
        size=size,
        sensor=sensor or DEFAULT_SENSOR,
        test_share=test_share,
        backgrounds=backgrounds,
        background_noise=background_noise,
    )
    console = Console()
    if out is not None:
        _write(plan, out, workers, console)
    if check:
        _check(plan, reference, json, plot, workers, console)
    if sheet is not None:
        _draw_sheet(plan, sheet, console)


def _write(plan: SimulationPlan, out: Path, workers: int | None, console: Console) -> None:
    from flame.cli.progress import counting
    from flame.pipeline.datasets import simulate_dataset

    with counting(console, "simulating", plan.tiles) as step:
        records = simulate_dataset(plan, out, workers, on_tile=lambda _: step())
    with_plume = sum(record.has_plume for record in records)
    console.print(f"{len(records)} tiles in {out}, {with_plume} with a plume", markup=False, soft_wrap=True)


def _check(
    plan: SimulationPlan,
    reference: Path | None,
    json: Path | None,
    plot: Path | None,
    workers: int | None,
    console: Console,
) -> None:
    from flame.bench.calibration import compare, measure_folder, measure_simulation, published_starcop
    from flame.bench.calibration_report import comparison_table, filter_table, plot_comparison
    from flame.cli.progress import counting

    with counting(console, "measuring", plan.tiles) as step:
        simulated = measure_simulation(plan, workers, on_tile=step)
    comparison = compare(simulated, published_starcop() if reference is None else measure_folder(reference))
    console.print(comparison_table(comparison))
    filters = filter_table(comparison)
    if filters is not None:
        console.print(filters)
    if json is not None:
        write_json(json, comparison.to_json())
    if plot is not None:
        plot_comparison(comparison, plot)


def _draw_sheet(plan: SimulationPlan, sheet: Path, console: Console) -> None:
    from flame.products.contact_sheet import contact_sheet

    contact_sheet([plan.draw(index).tile for index in range(min(plan.tiles, _SHEET_TILES))], sheet)
    console.print(f"wrote {sheet}", markup=False, soft_wrap=True)
