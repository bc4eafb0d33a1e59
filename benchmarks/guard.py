"""What the guard costs: tiles of a stream with and without it, in turns, by processor time.

python benchmarks/guard.py --json results/benchmarks/guard.json
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from flame.files import write_json
from flame.onboard import Asked, Detector
from flame.onboard.guard import GuardSettings
from flame.onboard.strip import judge_tile
from flame.physics import sensor_of
from flame.pipeline.demo import demo_tile


def _parts_ms(guard) -> dict[str, float]:
    def spent(work) -> float:
        began = time.process_time()
        work()
        return 1e3 * (time.process_time() - began)

    return {"scrub_ms": spent(guard.golden.scrub), "ranges_ms": spent(guard.ranges.odd)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    detector = Detector(given.model, threads=given.threads, asked=Asked(level="visible"))
    facts = detector.manifest
    scene = demo_tile(facts.tile, 0, sensor_of(facts.bands)).scene
    settings = GuardSettings(self_test_tiles=None)
    stream = detector.stream(facts.tile, guard=settings)
    guard = stream.guard
    assert guard is not None

    def run(runtime):
        return judge_tile(runtime, scene.radiance, scene.valid, scene.rgb)

    guard.judge(run)  # learns the ranges of this scene
    rounds: list[dict[str, float]] = []
    for _ in range(given.rounds):
        times = {}
        for name, work in (("without", lambda: run(guard.runtime)), ("with", lambda: guard.judge(run))):
            began = time.process_time()
            work()
            times[name] = 1e3 * (time.process_time() - began)
        rounds.append(times | _parts_ms(guard))
    middle = {name: statistics.median(entry[name] for entry in rounds) for name in rounds[0]}
    share = (middle["scrub_ms"] + middle["ranges_ms"]) / middle["without"]
    known = 1 / (GuardSettings().self_test_tiles or 1)
    print(f"{facts.name} on {detector.runtime}, {given.threads} thread(s), {given.rounds} rounds, processor time")
    print(f"a tile {middle['without']:.1f} ms, guarded {middle['with']:.1f} ms")
    print(f"scrub {middle['scrub_ms']:.2f} ms for {guard.golden.nbytes / 1e6:.1f} MB and its copies")
    print(f"ranges {middle['ranges_ms']:.2f} ms for {guard.ranges.nbytes / 1e6:.1f} MB")
    print(f"checks {100 * share:.2f} %, known tile every {round(1 / known)} tiles {100 * known:.2f} %")
    ratio = statistics.median(entry["with"] / entry["without"] for entry in rounds)
    print(f"median ratio of the turns: {ratio:.4f}")
    if given.json:
        write_json(
            given.json,
            {
                "model": facts.name,
                "runtime": detector.runtime,
                "threads": given.threads,
                "rounds": rounds,
                "median": middle,
                "median_ratio": ratio,
                "checks_share": share,
                "self_test_share": known,
                "watched_bytes": guard.golden.nbytes,
                "ranged_bytes": guard.ranges.nbytes,
            },
        )


if __name__ == "__main__":
    main()
