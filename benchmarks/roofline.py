"""Where the time of one tile goes in the native runtime, by part, against what arithmetic and memory would allow."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median

import numpy as np
import safetensors.numpy

from flame.detection import find_plumes, plume_mask
from flame.onboard import load_model
from flame.onboard.backends import open_backend
from flame.prepare.planes import PlanePreparer
from flame.prepare.planes import compiled as planes_in_c
from flame.scene import Scene
from plane_work import LIFT, SCORE, SEGMENTATION, TRUNK, plane_work
from side_by_side import print_table

ROUNDS = 15
_COPIED = 1 << 26


class Stopwatch:
    """Times of functions by the name of the part they do; while one runs, those inside it do not count twice."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def over(self, owner: object, name: str, part: str) -> None:
        """Replaces a function by one that is timed."""
        inner = getattr(owner, name)

        def run(*given: object, **named: object) -> object:
            began = time.perf_counter()
            answer = inner(*given, **named)
            self.seconds[part].append(time.perf_counter() - began)
            return answer

        setattr(owner, name, run)

    def median(self, part: str) -> float:
        """Median time of a part; the first runs, which load things, are left out."""
        return median(self.seconds[part][2:])


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


def profile(model: str, scene: Scene, threads: int, gemm_gflops: float) -> dict[str, dict[str, float]]:
    """Prints the table of one network of planes and gives its figures.

    Args:
        model: Packaged name or ONNX file.
        scene: One tile.
        threads: CPU threads.
        gemm_gflops: Peak of a matrix product, measured in the same run.
    """
    package = load_model(model)
    facts = package.manifest
    assert facts.plane_facts is not None, "this needs a network of planes"
    assert package.weights is not None
    backend = open_backend(package, "native", threads)
    arrays = safetensors.numpy.load(package.weights)
    preparer = PlanePreparer(facts.plane_facts.planes, arrays["functions"], scene.bands, scene.shape, threads=threads)
    watch = Stopwatch()
    for name, part in (("estimate_background", "statistics"), ("project", "pass over the cube")):
        watch.over(planes_in_c, name, part)
    watch.over(preparer, "prepare", "planes, whole")
    network = backend._network._usual
    for owner, name, part in (
        (network, "_lift_planes", LIFT),
        (network._trunk, "run", TRUNK),
        (network, "_find_score", SCORE),
        (network, "_segment", SEGMENTATION),
        (network, "infer", "network, whole"),
    ):
        watch.over(owner, name, part)
    for _ in range(ROUNDS + 2):
        backend.infer(preparer.prepare(scene.radiance, scene.valid).inputs)
    cube_gb = 1e-9 * scene.radiance.nbytes
    giga_flop, giga_bytes = plane_work(arrays, scene.shape[0])
    inside = watch.median("statistics") + watch.median("pass over the cube")
    parts = {
        "statistics": (watch.median("statistics"), 0.0, 0.0),
        "pass over the cube": (watch.median("pass over the cube"), 0.0, cube_gb),
        "validity, averages": (watch.median("planes, whole") - inside, 0.0, cube_gb),
    }
    left = watch.median("network, whole")
    for part in (LIFT, TRUNK, SCORE, SEGMENTATION):
        parts[part] = (watch.median(part), giga_flop[part], giga_bytes[part])
        left -= watch.median(part)
    parts["what it says"] = (left, 0.0, 12 * 4e-9 * scene.valid.size)
    probability = np.linspace(0, 1, scene.valid.size, dtype=np.float32).reshape(scene.shape)

    def decide() -> None:
        find_plumes(plume_mask(probability, scene.valid, facts.rule), probability, probability)

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
