"""`flame profile`: the paper's latency, power and temperature protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flame.files import write_json

if TYPE_CHECKING:
    from rich.table import Table

    from flame.onboard.profile import ProfileReport


def run(
    model: Annotated[str | None, typer.Option(help="A packaged name, or an ONNX file.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for profile.json and profile.png.")] = Path("profile-output"),
    runtime: Annotated[str, typer.Option(help="auto, native, onnxruntime or openvino.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; all cores if not given.")] = None,
    tiles: Annotated[int, typer.Option(min=1, help="Tiles in the fixed set.")] = 5,
    warm_up: Annotated[int, typer.Option(min=0, help="Untimed detections before.")] = 50,
    repetitions: Annotated[int, typer.Option(min=1, help="Timed passes over the set.")] = 200,
    sysfs_root: Annotated[Path, typer.Option(help="Root below which sensors are looked for.")] = Path("/"),
) -> None:
    """Measure a model here: 50 warm-ups, 200 passes over five tiles, sensors every 100 ms (sec:edge_hardware)."""

    from rich.console import Console

    from flame.cli.progress import counting
    from flame.onboard import Detector
    from flame.onboard.profile import ProfileSettings, profile
    from flame.onboard.sensors import find_sensors
    from flame.pipeline.demo import demo_tile
    from flame.products.profile_figure import plot_profile

    console = Console()
    detector = Detector(model, runtime, threads)
    facts = detector.manifest
    console.print(f"{facts.name} for {facts.sensor} on {detector.runtime}")
    scenes = [demo_tile(facts.tile, seed, facts.sensor).scene for seed in range(tiles)]
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
