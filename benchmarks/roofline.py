"""Where the time of one tile goes in the native runtime, by part, against what arithmetic and memory would allow."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from flame.detection import find_plumes, plume_mask
from flame.onboard import load_model
from flame.onboard.backends import NativeBackend
from flame.onboard.native import NativeNetwork
from flame.prepare import TilePreparer
from flame.scene import Scene
from onnx_work import work_by_part
from side_by_side import print_table

ROUNDS = 15
_COPIED = 1 << 26


def _seconds(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return median(times)


def _bandwidth() -> float:
    """GB/s of copying 64 MB, read and write counted."""
    source = np.ones(_COPIED // 4, dtype=np.float32)
    target = np.empty_like(source)
    return 2e-9 * _COPIED / _seconds(lambda: np.copyto(target, source))


STEPS = {
    "_lift": ("lift and its inputs",),
    "_features": ("spectral", "U-Nets", "1x1, gates"),
    "_find_score": ("heads and score",),
    "_segment": ("segmentation",),
}
"""Steps of the network, and the parts of the exported graph whose work they do."""

NAMES = {"_features": "operator"}


def _network_seconds(network: NativeNetwork, inputs: dict[str, np.ndarray]) -> dict[str, float]:
    """Median time of each step over several runs."""
    times: dict[str, list[float]] = defaultdict(list)

    def timed(name: str) -> Callable[..., object]:
        step = getattr(network, name)

        def run(*given: object) -> object:
            began = time.perf_counter()
            answer = step(*given)
            times[name].append(time.perf_counter() - began)
            return answer

        return run

    for name in STEPS:
        setattr(network, name, timed(name))
    for _ in range(ROUNDS + 2):
        network.infer(inputs)
    return {name: median(of[2:]) for name, of in times.items()}


def profile(model: str, scene: Scene, threads: int, gemm_gflops: float) -> dict[str, dict[str, float]]:
    """Prints the table of one model and gives its figures.

    Args:
        model: Packaged name or ONNX file.
        scene: One tile.
        threads: CPU threads.
        gemm_gflops: Peak of a matrix product, measured in the same run.
    """
    package = load_model(model)
    facts = package.manifest
    backend = NativeBackend(package, threads)
    preparer = TilePreparer(
        *(facts.prepare, facts.inputs, facts.bands, scene.shape, np.array(facts.absorption), threads),
        block_rows=backend.block_rows,
    )
    cube_gb = 1e-9 * scene.radiance.nbytes
    whitening: list[float] = []
    steps = preparer._steps
    whiten = steps.whiten

    def timed(*given: object) -> None:
        whitening.append(_seconds(lambda: whiten(*given), 1))

    steps.whiten = timed
    prepared = preparer.prepare(scene.radiance, scene.valid, scene.rgb)
    prepare_s = _seconds(lambda: preparer.prepare(scene.radiance, scene.valid, scene.rgb))
    parts = {"prepare": (prepare_s - (median(whitening) if whitening else 0.0), 0.0, 2 * cube_gb)}
    if whitening:
        parts["whitening"] = (median(whitening), 2e-9 * scene.radiance.size * len(scene.bands), 2 * cube_gb)
    giga_flop, giga_bytes = work_by_part(Path(package.source))
    for step, spent in _network_seconds(backend._network, prepared.inputs).items():
        of = STEPS[step]
        flop, traffic = (sum(work[part] for part in of) for work in (giga_flop, giga_bytes))
        parts[NAMES.get(step, of[0])] = (spent, flop, traffic)
    probability = np.linspace(0, 1, scene.valid.size, dtype=np.float32).reshape(scene.shape)
    rule = facts.rule

    def decide() -> None:
        find_plumes(plume_mask(probability, scene.valid, rule), probability, probability)

    parts["decision"] = (_seconds(decide), 0.0, 3e-9 * probability.nbytes)
    bandwidth, total = _bandwidth(), sum(seconds for seconds, _, _ in parts.values())
    rows, figures = [], {}
    for name, (spent, flop, traffic) in parts.items():
        least = max(flop / gemm_gflops, traffic / bandwidth)
        limit = "arithmetic" if flop / gemm_gflops > traffic / bandwidth else "memory"
        figures[name] = {
            "milliseconds": 1e3 * spent,
            "giga_flop": flop,
            "giga_bytes": traffic,
            "gflops": flop / spent,
            "gemm_share": flop / spent / gemm_gflops,
            "roof_share": least / spent,
        }
        row = [f"{1e3 * spent:.1f}", f"{100 * spent / total:.0f}", f"{flop:.2f}", f"{1e3 * traffic:.0f}"]
        rows.append([name, *row, f"{flop / spent:.0f}", f"{100 * flop / spent / gemm_gflops:.0f}", limit])
        rows[-1].append(f"{100 * least / spent:.0f}")
    header = ["part", "ms", "% of time", "GFLOP", "MB", "GFLOP/s", "% GEMM peak", "roof", "% of roof"]
    print_table(f"{facts.name} by part, native runtime, {gemm_gflops:.0f} GFLOP/s, {bandwidth:.1f} GB/s", header, rows)
    return figures
