"""`flame profile`: the paper's latency, power and temperature protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flame.cli.options import PackagedModel, Runtime, Threads, output_folder
from flame.files import write_json

if TYPE_CHECKING:
    from rich.table import Table

    from flame.onboard.profile import ProfileReport


def run(
    model: PackagedModel = None,
    out: Annotated[Path, output_folder("Folder for profile.json and profile.png.")] = Path("profile-output"),
    runtime: Runtime = "auto",
    threads: Threads = None,
    tiles: Annotated[int, typer.Option(min=1, metavar="N", help="How many tiles to detect in, again and again.")] = 5,
    warm_up: Annotated[int, typer.Option(min=0, metavar="N", help="Detections before the clock starts.")] = 50,
    repetitions: Annotated[int, typer.Option(min=1, metavar="N", help="Timed passes over all tiles.")] = 200,
    sysfs_root: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to look for power and temperature readings.")
    ] = Path("/"),
) -> None:
    """Measure how fast a model runs on this computer, and with how much power and heat.

    Follows the paper's protocol: 50 detections to warm up, then 200 passes over five tiles, with power and temperature
    read every 100 ms where the computer tells them.
    """
    from rich.console import Console

    from flame.cli.progress import counting
    from flame.onboard import Asked, Detector, ModelError
    from flame.onboard.profile import ProfileSettings, profile
    from flame.onboard.telemetry import find_sensors
    from flame.physics import sensor_of
    from flame.pipeline.demo import demo_tile
    from flame.products.profile_figure import plot_profile

    console = Console()
    detector = Detector(model, runtime, threads, asked=Asked(level="visible"))
    facts = detector.manifest
    console.print(f"{facts.name} for {facts.sensor} on {detector.runtime}")
    seen_by = sensor_of(facts.bands)
    if seen_by is None:
        raise ModelError(f"{facts.name} has bands of no sensor that can be simulated; only such models can be profiled")
    scenes = [demo_tile(facts.tile, seed, seen_by).scene for seed in range(tiles)]
    settings = ProfileSettings(warm_up, repetitions)
    with counting(console, "detections", warm_up + repetitions * tiles) as step:
        report = profile(detector, scenes, find_sensors(sysfs_root), settings, step)
    write_json(out / "profile.json", report.to_dict())
    series = {name: (s.unit, s.times_s, s.values) for name, s in report.sensors.items()}
    title = f"{facts.name}, {facts.tile} x {facts.tile} pixels, {detector.runtime}, {report.machine['processor']}"
    plot_profile(out / "profile.png", title, report.latency_ms, series)
    console.print(_table(report))
    console.print(f"{out / 'profile.json'}, {out / 'profile.png'}", markup=False, soft_wrap=True)


def _table(report: ProfileReport) -> Table:
    from rich.table import Table

    def shown(value: float | None, unit: str) -> str:
        return "n/a" if value is None else f"{value:.1f} {unit}"

    table = Table("quantity", "mean", "peak")
    latency, power = report.latency(), report.total_power_w()
    table.add_row("latency of a tile", shown(latency["mean"], "ms"), shown(latency["max"], "ms"))
    table.add_row("latency p50 / p99", shown(latency["p50"], "ms"), shown(latency["p99"], "ms"))
    for name, value in report.parts_ms.items():
        table.add_row(f"  {name}", shown(value, "ms"), "")
    table.add_row("total power", shown(power["mean"], "W"), shown(power["peak"], "W"))
    temperatures = [name for name, series in report.sensors.items() if series.quantity == "temperature"]
    if not temperatures:
        table.add_row("temperature", "n/a", "n/a")
    for name, series in report.sensors.items():
        table.add_row(f"  {name}", shown(series.mean, series.unit), shown(series.peak, series.unit))
    return table
