"""`flame demo`: the whole chain on a simulated scene."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flame.cli.options import DEFAULT_SENSOR, ModelName, Runtime, output_folder, sensor_option


def run(
    out: Annotated[Path, output_folder("Folder for the maps and the report.")] = Path("demo-output"),
    model: ModelName = None,
    runtime: Runtime = "auto",
    size: Annotated[int, typer.Option(min=32, metavar="N", help="Rows and columns of the scene, in pixels.")] = 512,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Which scene to simulate.")] = 0,
    sensor: Annotated[str | None, sensor_option("Sensor to simulate")] = DEFAULT_SENSOR,
) -> None:
    """Simulate a scene, find its plumes, write maps and a report, and compare with the truth.

    Needs no data and no network. Open `report.html` in the output folder to see what was found.
    """
    from rich.console import Console
    from rich.table import Table

    from flame.onboard import Detectors
    from flame.pipeline.demo import run_demo
    from flame.plumes import plume_letters
    from flame.products.digits import amount, with_sigma

    console = Console(markup=False)
    result = run_demo(out, Detectors(model, runtime), size, seed, sensor or DEFAULT_SENSOR, console.print)
    counts = result.counts
    table = Table("figure", "value", title="found against the truth")
    table.add_row("true plumes found", f"{result.found_plumes} of {result.true_plumes}")
    table.add_row("false plumes", str(result.false_plumes))
    if result.detection.level_ppm_m is not None:
        table.add_row("outlines, found and true", f"at {amount(result.detection.level_ppm_m, 'ppm m')}")
    for plume in result.rated:
        letter, rate = plume_letters(plume.record.number), plume.record.rate
        if rate is not None:
            found = with_sigma(rate.kg_h, rate.sigma_kg_h, "kg/h")
            piece = "" if plume.pieces == 1 else f" for all {plume.pieces} pieces of it"
            table.add_row(f"plume {letter}", f"{found}, truth {amount(plume.true_kg_h, 'kg/h')}{piece}")
    for name in ("f1", "precision", "recall"):
        table.add_row(f"pixel {name}", f"{getattr(counts, name):.3f}")
    table.add_row("pixel false-positive rate", f"{counts.pixel_fpr:.1e}")
    for name, seconds in result.seconds.items():
        table.add_row(name, f"{seconds:.2f} s")
    console.print(table)
    console.print(f"open {result.report}", markup=False, soft_wrap=True)
