"""`flame bench`: the paper's tables and figures, one sub-command each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from flame.bench.comparison.experiments import EXPERIMENTS
from flame.bench.comparison.scales import SCALES
from flame.cli import bench_plumes
from flame.cli.groups import takes
from flame.cli.options import (
    DEFAULT_SENSOR,
    Background,
    PackagedModel,
    Preset,
    Seed,
    SimulatedSensor,
    Threads,
    TileSize,
    Workers,
    completing,
    input_path,
    output_file,
    output_folder,
    require_torch,
)
from flame.cli.train import Device, device_named
from flame.errors import FlameError

if TYPE_CHECKING:
    from flame.pipeline.datasets import SimulationPlan

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
"""`flame bench NAME`: every experiment has options and help of its own."""

Out = Annotated[Path, output_folder("Folder for the figures.")]
RunsOut = Annotated[Path, output_folder("Folder for runs and figures; what is already there is not done again.")]
TrainingWorkers = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="Processes that prepare the tiles.")
]
TrainingData = Annotated[
    Path, input_path("Data set made by `flame simulate`, to train and judge on.", metavar="FOLDER")
]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Run only this one; may be repeated.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Change a setting of every run, as in `flame train`; may be repeated."
    ),
]


app.command()(bench_plumes.wind)
app.command()(bench_plumes.pod)


@app.callback()
def _experiments() -> None:
    """Repeat one of the paper's experiments."""


def _judged_tiles(
    data: Annotated[
        Path | None,
        input_path(
            "Judge the test tiles of this data set, made by `flame simulate`, instead of new ones.", metavar="FOLDER"
        ),
    ] = None,
    tiles: Annotated[int, typer.Option(min=1, metavar="N", help="Tiles to simulate if no --data is given.")] = 200,
    seed: Seed = 0,
    preset: Preset = "wide",
    size: TileSize = 128,
    sensor: SimulatedSensor = None,
    background: Background = None,
) -> tuple[SimulationPlan, str | None]:
    """The tiles to judge on: the test split of a data set, or tiles drawn for this."""
    from flame.pipeline.backgrounds import require_sensor
    from flame.pipeline.datasets import SimulationPlan, read_plan

    if data is not None:
        return read_plan(data), "test"
    backgrounds = tuple(str(path) for path in background or ())
    if sensor is not None:
        require_sensor(backgrounds, sensor)
    return SimulationPlan(tiles, seed, preset, size, sensor or DEFAULT_SENSOR, backgrounds=backgrounds), None


@app.command()
@takes(judged=_judged_tiles)
def limit(out: Out, judged: tuple[SimulationPlan, str | None], workers: Workers = None) -> None:
    """Compare the classical filters with the best that any detector could do on simulated tiles."""
    from flame.bench.baselines import limit_rows, run_limit
    from flame.cli.progress import counting

    console = Console()
    plan, split = judged
    file = out / "limit.json"
    with counting(console, "judging", plan.tiles) as step:
        report = run_limit(plan, split, file, workers, on_tile=step)
    console.print(limit_rows(report))
    console.print(f"wrote {file}", markup=False, soft_wrap=True)


@app.command()
@takes(judged=_judged_tiles)
def robustness(
    out: Out, judged: tuple[SimulationPlan, str | None], model: PackagedModel = "flame-plus", workers: Workers = None
) -> None:
    """Judge a packaged model on tiles as they are, at other gains and with wrongly calibrated bands."""
    from rich.markdown import Markdown

    from flame.bench.robustness import robustness_table, run_robustness
    from flame.cli.progress import counting

    console = Console()
    plan, split = judged
    with counting(console, "judging", plan.tiles) as step:
        report = run_robustness(plan, split, model or "flame-plus", out, workers=workers, on_tile=step)
    console.print(Markdown(robustness_table(report)))


@app.command()
def accuracy(
    data: TrainingData,
    out: RunsOut,
    real: Annotated[
        Path | None,
        input_path(
            "A second data set to judge on, with real ground (`flame simulate --background`).", metavar="FOLDER"
        ),
    ] = None,
    only: Only = None,
    change: Changes = None,
    workers: TrainingWorkers = 2,
) -> None:
    """Train FLAME, its variants and flame-plus, judge each, and print the table (hours)."""
    require_torch("flame bench accuracy")
    from rich.markdown import Markdown

    from flame.bench.accuracy import VARIANTS, run_accuracy

    variants = _chosen(only, tuple(VARIANTS), "variant")
    console = Console()
    tell = partial(console.print, highlight=False)
    judged = {"simulated": data} | ({"real_surfaces": real} if real else {})
    console.print(Markdown(run_accuracy(judged, out, variants, change or (), workers, tell)))


@app.command()
def changes(
    data: TrainingData,
    out: RunsOut,
    only: Only = None,
    change: Changes = None,
    seed: Seed = 0,
    workers: TrainingWorkers = 2,
) -> None:
    """Try changes of the model one at a time, judged on validation tiles (hours)."""
    require_torch("flame bench changes")
    from rich.markdown import Markdown

    from flame.bench.changes import STEPS, run_changes

    steps = _chosen(only, tuple(STEPS), "step")
    console = Console()
    tell = partial(console.print, highlight=False)
    console.print(Markdown(run_changes(data, out, steps, change or (), seed, workers, tell)))


@app.command()
def faults(
    out: Annotated[Path, output_folder("Folder for the flips and summary.json; what is there is not done again.")],
    model: PackagedModel = None,
    weights: Annotated[int, typer.Option(min=0, metavar="N", help="Flips in weights and tables.")] = 10_000,
    unguarded: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many of these are also run without the guard.")
    ] = 10_000,
    buffers: Annotated[int, typer.Option(min=0, metavar="N", help="Flips in buffers and inputs.")] = 5_000,
    minutes: Annotated[
        float | None, typer.Option(min=0, metavar="N", help="Stop after so long; the next run goes on from there.")
    ] = None,
    tile: Annotated[int, typer.Option(min=0, metavar="N", help="Which simulated tile is struck.")] = 0,
    side: Annotated[
        int | None, typer.Option(min=32, metavar="N", help="Strike a tile of this side instead of the model's own.")
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Do only proofs, weights, weights_unguarded or buffers; may be repeated."),
    ] = None,
) -> None:
    """Flip bits in the memory of the flight runtime and tell what the guard makes of them."""
    from rich.markdown import Markdown

    from flame.bench.faults import JOBS, FaultBench, FaultPlan, run_faults
    from flame.bench.faults_report import faults_summary, faults_tables
    from flame.cli.progress import counting
    from flame.files import write_json
    from flame.onboard import Asked, Detector, ModelError, load_model
    from flame.physics import sensor_of
    from flame.pipeline.demo import demo_tile

    console = Console()
    package = load_model(model)
    if side is not None:
        package = replace(package, manifest=replace(package.manifest, tile=side, row_block=None))
    detector = Detector(package, "native", threads, asked=Asked(level="visible"))
    manifest = detector.manifest
    seen_by = sensor_of(manifest.bands)
    if seen_by is None:
        raise ModelError(f"{manifest.name} has bands of no sensor that can be simulated; its tile cannot be struck")
    bench = FaultBench(detector, demo_tile(manifest.tile, tile, seen_by).scene, seed)
    plan = FaultPlan(weights, unguarded, buffers, seed=seed)
    folder = out / f"{manifest.sha256[:12]}-{manifest.tile}"
    with counting(console, "flips", weights + unguarded + buffers + plan.proofs) as step:
        records = run_faults(bench, plan, folder, minutes, step, only or JOBS)
    facts: dict[str, object] = {
        "model": f"{manifest.name} for {manifest.sensor}",
        "sha256": manifest.sha256,
        "runtime": detector.runtime,
    }
    facts |= {"tile": manifest.tile, "tile_seed": tile, "plume_pixels": int(bench.mask.sum()), "seed": seed}
    sizes = bench.sizes(bench.weight_strata, bench.constants), bench.sizes(bench.buffer_strata, bench.buffers)
    summary = faults_summary(records, *sizes, facts)
    write_json(out / "summary.json", summary)
    console.print(Markdown(faults_tables(summary)))
    console.print(f"wrote {out / 'summary.json'}", markup=False, soft_wrap=True)


def _comparison(name: str) -> Callable[..., None]:
    """The command of one of the paper's experiments; all have the same options."""

    def run(
        out: RunsOut,
        scale: Annotated[
            str,
            typer.Option(
                metavar="NAME",
                help="How large: small for two cores and some hours, paper for the paper's, tiny for a trial.",
                autocompletion=completing(lambda: list(SCALES)),
            ),
        ] = "small",
        data: Annotated[
            Path | None,
            input_path("STARCOP, or another data set in its layout, not simulated tiles.", metavar="FOLDER"),
        ] = None,
        work: Annotated[
            Path | None, output_folder("Folder for tiles, checkpoints and weights. By default OUT/work.")
        ] = None,
        only: Only = None,
        seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Trainings of each network.")] = 1,
        tiles: Annotated[
            int | None, typer.Option(min=2, metavar="N", help="So many simulated tiles a split, for a trial.")
        ] = None,
        change: Changes = None,
        device: Device = "auto",
        threads: Threads = None,
        workers: TrainingWorkers = 1,
    ) -> None:
        require_torch(f"flame bench {name}")
        import torch

        from flame.bench.comparison.latency import measure_latency
        from flame.bench.comparison.methods import chosen_methods
        from flame.bench.comparison.pages import render_experiment
        from flame.bench.comparison.runs import Setting, run_missing
        from flame.bench.comparison.scales import scale_named
        from flame.training.distributed import join

        if threads is not None:
            torch.set_num_threads(threads)
        first = join().rank == 0
        console = Console(quiet=not first)
        tell = partial(console.print, highlight=False, markup=False, soft_wrap=True)
        setting = Setting(
            scale_named(scale, tiles),
            out,
            work or out / "work",
            data,
            tuple(change or ()),
            device_named(device),
            workers,
            tell,
        )
        methods = chosen_methods(name, tuple(only or ()))
        if first and (name == "latency" or (name == "bubble" and not setting.records.latency())):
            measure_latency(methods, setting)
        if name != "latency":
            run_missing(methods, range(seeds), setting)
        if first:
            render_experiment(name, setting.records)
            tell(f"wrote {setting.records.folder / name}.md")

    run.__doc__ = EXPERIMENTS[name].summary
    return run


for _name in EXPERIMENTS:
    app.command(_name)(_comparison(_name))


@app.command()
def report(
    out: Annotated[Path, input_path("Folder that the experiments wrote to.", metavar="FOLDER")],
    page: Annotated[Path, output_file("Markdown file to write; figures go to `images` beside it.")],
) -> None:
    """Write one page of all experiments from the small files that they left, without running anything."""
    require_torch("flame bench report")
    from flame.bench.comparison.pages import write_page

    write_page(out, page)
    Console().print(f"wrote {page}", markup=False, soft_wrap=True)


def _chosen(only: Sequence[str] | None, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise FlameError(f"no {what} '{unknown[0]}'; known are {', '.join(known)}")
    return tuple(only or known)
