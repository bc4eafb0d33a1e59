"""Detection on one 512 x 512 x 72 tile, radiance in and plume mask out: this runtime beside what else there is.

    python benchmarks/runtime.py [--json FILE] [--rounds 20] [--threads 2] [--model flame-plus] [--profile]

All contenders take turns within one run: the paper's network in torch with torch.fft, whole heads and plain layout as
operators are usually written; the same in torch with the truncated DFT; exported, in `flame.onboard.Detector` on each
engine; the packaged model in torch as it was trained, and on each engine; and onboard-methane-detection's MAG1C-SAS +
LinkNet. So does a plain float32 matrix
product, the peak that `gemm_share` refers to. The same network must give the same mask everywhere, or the run ends.
On a computer that does other things too, compare CPU time, that of all threads. Memory is the peak resident set of a
process that does nothing else, interpreter, engine and scene (79 MB) included. `--profile` adds where the time of the
packaged model goes and what limits each part.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import safetensors.numpy
from threadpoolctl import threadpool_limits

from flame.kernels.library import SWITCH
from flame.onboard import Asked, Detector, load_model
from flame.physics import sensor
from flame.scene import Scene
from side_by_side import Timing, in_own_process, peak_mb, print_table, take_turns, write_json

TILE = 512
EAGER, DFT, PEER, GEMM = "torch eager, FFT", "torch, DFT", "MAG1C-SAS + LinkNet", "matrix product"
OURS_EAGER = "flame-plus, torch eager"
TRAINED = Path(__file__).parents[1] / "results" / "flame-plus-2" / "model.safetensors"
ENGINES = ("native", "openvino", "onnxruntime")
GEMM_SIDE = 2048
BANDS = sensor("aviris-ng").bands.methane()

Mask = np.ndarray
Run = Callable[[], Mask]


def load_scene(folder: Path) -> Scene:
    radiance, rgb = (np.load(folder / f"{name}.npy") for name in ("radiance", "rgb"))
    return Scene(radiance, BANDS, np.ones(radiance.shape[1:], dtype=np.bool_), rgb)


def make_inputs(folder: Path) -> None:
    """A simulated scene, and the paper's network with weights that leave nothing at zero, stored and exported."""
    import torch

    from flame.models import BatchPreparer, Flame, RawTile, SpectralStatistics
    from flame.models.weights import save_model
    from flame.physics import unit_absorption
    from flame.pipeline.export import export_model
    from flame.simulate import preset, simulate_tile, tile_generator
    from flame.training.recipes import recipe

    scene = simulate_tile(tile_generator(0, 0), preset("narrow", size=TILE), "benchmark").tile.scene
    if not scene.valid.all():
        raise SystemExit("this seed gives a tile with invalid pixels, which the peer marks differently; take another")
    np.save(folder / "radiance.npy", scene.radiance)
    np.save(folder / "rgb.npy", scene.rgb)
    log = np.log(np.maximum(scene.radiance, 1e-3)).reshape(len(BANDS), -1)[:, ::16].astype(np.float64)
    torch.manual_seed(0)
    settings = recipe("paper").model
    model = Flame(settings, unit_absorption(BANDS), SpectralStatistics(log.mean(1), np.cov(log)))
    corner = RawTile(*(np.ascontiguousarray(a[..., :128, :128]) for a in (scene.radiance, scene.valid, scene.rgb)))
    inputs = BatchPreparer(settings, BANDS).prepare([corner]).inputs
    with torch.no_grad():
        for heads in (model.heads.w_bg, model.heads.w_sw):
            heads.normal_(std=0.05)
        for _ in range(20):  # batch norms have seen data
            model.train()(inputs)
        logit = model.eval()(inputs).logit
        model.segmentation.project.bias.sub_(logit.quantile(0.95))
    save_model(folder / "model.safetensors", settings, model.state_dict(), BANDS, {})
    export_model(folder / "model.safetensors", folder / "paper.onnx", TILE, "paper", scenes=[scene])


def in_torch(folder: Path, plain: bool) -> Run:
    import torch

    from flame.detection import plume_mask
    from flame.models import BatchPreparer, RawTile
    from flame.models.weights import load_model as load_weights

    stored = load_weights(folder / "model.safetensors")
    model = stored.model.eval()
    preparer = BatchPreparer(model.settings, stored.bands, torch.get_num_threads())
    if plain:
        from plain_flame import PlainFlame

        model = PlainFlame(model).eval()
    scene = load_scene(folder)

    @torch.inference_mode()
    def run() -> Mask:
        batch = preparer.prepare([RawTile.of(scene)])
        return plume_mask(torch.sigmoid(model(batch.inputs).logit)[0].numpy(), batch.usable[0].numpy())

    return run


def plus_in_torch(folder: Path) -> Run:
    """The packaged network as it was trained: planes in NumPy, everything after in torch."""
    import torch

    from flame.detection import plume_mask
    from flame.models.plus.weights import load_plus
    from flame.pipeline.export_plus import plane_batch
    from flame.prepare.planes import prepare_planes

    model, scene, rule = load_plus(TRAINED).model, load_scene(folder), load_model("flame-plus").manifest.rule

    @torch.inference_mode()
    def run() -> Mask:
        with kernels_set_aside():
            planes, view = prepare_planes(scene.radiance, scene.bands, scene.valid, model.settings.planes)
        logit = model(plane_batch(model, planes, view, scene.bands)).outline_logit
        return plume_mask(torch.sigmoid(logit)[0].numpy(), scene.valid, rule)

    return run


@contextmanager
def kernels_set_aside() -> Iterator[None]:
    """Without compiled kernels, as plain NumPy does it."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "none"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SWITCH]
        else:
            os.environ[SWITCH] = before


def on_board(folder: Path, model: str | Path, engine: str, threads: int) -> Run:
    asked = Asked(level="visible", core_sigmas=0.0)  # as in torch, where every pixel is shown
    detector, scene = Detector(model, engine, threads, asked=asked), load_scene(folder)
    return lambda: detector.run(scene).mask


def peer(folder: Path) -> Run:
    """As its documentation calls it: the filter, then the network on RGB and the filter's map."""
    from onboard_methane_detection import initialize_model, mag1c_sas, model_inference, normalize_image

    from flame.physics import unit_absorption

    session, name = initialize_model(
        str(Path(initialize_model.__code__.co_filename).with_name("linknet_exported.onnx"))
    )
    scene, spectrum = load_scene(folder), np.array(unit_absorption(BANDS))

    def run() -> Mask:
        enhancement = mag1c_sas(scene.radiance, spectrum).reshape(1, *scene.shape)
        image = normalize_image(np.concatenate([scene.rgb, enhancement]).astype(np.float32), "aviris_ng")
        return model_inference(session, name, image, use_tiling=False, logits_to_probs=True)[0] > 0.5

    return run


def matrix_product() -> Run:
    import torch

    a, b = torch.rand(2, GEMM_SIDE, GEMM_SIDE)
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def contender(name: str, folder: Path, threads: int, model: str) -> Run:
    """A contender by the name it has in the tables."""
    if name in (EAGER, DFT, GEMM, OURS_EAGER):
        import torch

        torch.set_num_threads(threads)
    if name == GEMM:
        return matrix_product()
    if name in (EAGER, DFT):
        return in_torch(folder, plain=name == EAGER)
    if name == PEER:
        return peer(folder)
    if name == OURS_EAGER:
        return plus_in_torch(folder)
    network, engine = name.split(", ")
    return on_board(folder, folder / "paper.onnx" if network == "paper" else model, engine, threads)


def use_cores(threads: int) -> None:
    """Confines the process, so that libraries that choose their threads themselves have no more than the others."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    threadpool_limits(threads)


def check_masks(masks: Mapping[str, Mask]) -> None:
    """Ends the run if the same network does not give the same mask everywhere."""
    for network, names in {
        "the paper's network": [EAGER, DFT, *(f"paper, {engine}" for engine in ENGINES)],
        "the packaged model": [OURS_EAGER, *(f"flame-plus, {engine}" for engine in ENGINES)],
    }.items():
        first = masks[names[0]]
        for name in names[1:]:
            if differing := int((masks[name] != first).sum()):
                raise SystemExit(f"{network}: {differing} mask pixels differ between '{names[0]}' and '{name}'")
        print(f"{network}: the same mask of {int(first.sum())} pixels in {', '.join(names)}")


def report(
    times: Mapping[str, Timing], memory: Mapping[str, float], giga_flop: Mapping[str, float]
) -> dict[str, object]:
    """Prints the table and gives the figures."""
    peak = 2e-9 * GEMM_SIDE**3 / times[GEMM].best
    rows, shares = [], {}
    for name, timing in times.items():
        if name == GEMM:
            continue
        network = "torch" if name == OURS_EAGER else name.split(", ")[0]
        shares[name] = giga_flop[network] / timing.best / peak if network in giga_flop else float("nan")
        cpu = median(timing.processor_seconds)
        cells = [f"{1e3 * t:.0f}" for t in (timing.best, timing.median, timing.percentile(99), cpu)]
        eager = OURS_EAGER if name.startswith("flame-plus") else EAGER
        ratios = [f"{times[rival].median / timing.median:.1f}" for rival in (eager, PEER)]
        share = f"{100 * shares[name]:.0f}" if network in giga_flop else ""
        rows.append([name, *cells, f"{memory[name]:.0f}", *ratios, share])
    header = ["", "best ms", "median ms", "p99 ms", "CPU ms", "peak MB", "x eager", "x SAS+LinkNet", "% GEMM peak"]
    print_table(f"{TILE} x {TILE} x {len(BANDS)} tile, radiance to mask", header, rows)
    print(f"matrix product of {GEMM_SIDE}: {peak:.0f} GFLOP/s")
    ours = f"flame-plus, {ENGINES[0]}"
    return {
        "speedup_vs_eager": times[OURS_EAGER].median / times[ours].median,
        "paper_speedup_vs_eager": times[EAGER].median / times[f"paper, {ENGINES[0]}"].median,
        "speedup_vs_sas_linknet": times[PEER].median / times[ours].median,
        "peak_rss_mb": memory[ours],
        "p99_over_p50": times[ours].percentile(99) / times[ours].median,
        "gemm_share": shares[ours],
        "gemm_gflops": peak,
        "seconds": {
            name: {"best": t.best, "median": t.median, "p99": t.percentile(99), "cpu": median(t.processor_seconds)}
            for name, t in times.items()
        },
        "peak_mb": dict(memory),
        "gemm_shares": {name: share for name, share in shares.items() if share == share},
        "giga_flop": dict(giga_flop),
    }


def network_giga_flop(model: str | Path) -> float:
    """GFLOP of one tile from prepared inputs on; of the paper's network whitening is counted too."""
    package = load_model(model)
    if package.manifest.plane_facts is not None and package.weights is not None:
        from plane_work import plane_work

        return sum(plane_work(safetensors.numpy.load(package.weights), TILE)[0].values())
    from onnx_work import work_by_part

    bands = len(package.manifest.band_centres_nm)
    whitening = 2e-9 * bands**2 * TILE**2 if "whitened" in package.manifest.inputs else 0.0
    return sum(work_by_part(Path(package.source))[0].values()) + whitening


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default="flame-plus", help="packaged name or ONNX file to run as 'flame-plus'")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--folder", type=Path, help="where to leave the inputs, or to find those of an earlier run")
    parser.add_argument("--memory", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    use_cores(given.threads)
    if given.memory is not None:
        run = contender(given.memory[0], Path(given.memory[1]), given.threads, given.model)
        for _ in range(3):
            run()
        print(peak_mb())
        return
    ours = [f"{network}, {engine}" for network in ("paper", "flame-plus") for engine in ENGINES]
    names = [EAGER, DFT, OURS_EAGER, *ours, PEER]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if not (folder / "paper.onnx").exists():
            make_inputs(folder)
        passed = ["--threads", str(given.threads), "--model", given.model, "--memory"]
        memory = {name: in_own_process(Path(__file__), [*passed, name, str(folder)]) for name in names}
        runs = {name: contender(name, folder, given.threads, given.model) for name in [*names, GEMM]}
        check_masks({name: runs[name]() for name in names})
        times = take_turns(runs, given.rounds, repeats=dict.fromkeys([*ours, GEMM], 5))
        work = {"paper": network_giga_flop(folder / "paper.onnx"), "flame-plus": network_giga_flop(given.model)}
        figures = {"rounds": given.rounds, "threads": given.threads} | report(times, memory, work)
        if given.profile:
            from roofline import profile

            figures["parts"] = profile(given.model, load_scene(folder), given.threads, figures["gemm_gflops"])
        write_json(given.json, figures)


if __name__ == "__main__":
    main()
