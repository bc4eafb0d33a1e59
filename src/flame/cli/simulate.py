"""`flame simulate`: labelled tiles in the STARCOP layout, and how far they are from real ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flame.errors import FlameError
from flame.files import write_json
from flame.physics import SENSORS

if TYPE_CHECKING:
    from flame.pipeline.datasets import SimulationPlan

_SHEET_TILES = 12


def run(
    out: Annotated[Path | None, typer.Option(help="Folder for the tiles, train.csv and test.csv.")] = None,
    tiles: Annotated[int, typer.Option(min=1, help="Number of tiles.")] = 60,
    size: Annotated[int, typer.Option(min=16, help="Rows and columns of a tile.")] = 128,
    sensor: Annotated[str, typer.Option(help=f"One of {', '.join(SENSORS)}.")] = "aviris-ng",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
    preset: Annotated[str, typer.Option(help="What to draw from: wide, permian, quiet, cluttered or narrow.")] = "wide",
    background: Annotated[
        list[Path] | None, typer.Option(help="Real scene to inject plumes into; may be given more than once.")
    ] = None,
    background_noise: Annotated[
        bool, typer.Option(help="Add sensor noise to real backgrounds; not needed where theirs is complete.")
    ] = True,
    test_share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of tiles in the test split.")] = 0.2,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare the tiles with real ones.")] = False,
    reference: Annotated[
        Path | None, typer.Option(help="STARCOP folder to compare with; its published figures if not given.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the comparison to this JSON file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the comparison into this PNG file.")] = None,
    sheet: Annotated[
        Path | None, typer.Option("--contact-sheet", help="Draw RGB, enhancement, label and MAG1C into this PNG file.")
    ] = None,
) -> None:
    """Simulate labelled tiles, or compare a sample of them with STARCOP (--check)."""
    from flame.pipeline.datasets import SimulationPlan

    if out is None and not check and sheet is None:
        raise FlameError("nothing to do: give --out FOLDER, --check or --contact-sheet FILE")
    if not check and (reference or json or plot):
        raise FlameError("--reference, --json and --plot belong to --check")
    plan = SimulationPlan(
        tiles=tiles,
        seed=seed,
        preset=preset,
        size=size,
        sensor=sensor,
        test_share=test_share,
        backgrounds=tuple(str(path) for path in background or ()),
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
    console.print(f"{len(records)} tiles in {out}, {with_plume} with a plume")


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
    console.print(f"wrote {sheet}")
