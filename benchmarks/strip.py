"""A long synthetic strip through the line stream: constant memory, no line lost, the same mask as the whole scene.

    python benchmarks/strip.py [--lines 20000] [--width 512] [--model flame-plus] [--runtime auto] [--json FILE]

The strip is made of a few simulated scenes laid end to end, every second one mirrored so that they join without a step.
Its lines are pushed 32 at a time. Afterwards the same strip is given to `Detector.run` as one scene (3 GB at 20,000
lines) and the masks are compared line by line.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from flame.onboard import Asked, Detector
from flame.pipeline.datasets import SimulationPlan
from flame.scene import Scene
from side_by_side import resident_mb, write_json

PUSHED = 32


class Strip:
    """Any lines of the strip, from a few scenes held in memory."""

    def __init__(self, count: int, side: int, seed: int) -> None:
        plan = SimulationPlan(count, seed=seed, size=side)
        scenes = [plan.draw(index).tile.scene for index in range(count)]
        self.bands, self.side = scenes[0].bands, side
        self._radiance = [scene.radiance for scene in scenes]
        self._rgb = [scene.rgb for scene in scenes]
        self._valid = [scene.valid for scene in scenes]

    def lines(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Radiance, RGB and validity of lines that do not cross from one scene to the next."""
        number, first = divmod(start, self.side)
        pick = slice(first, first + stop - start)
        which = number % len(self._radiance)
        mirrored = number % 2 == 1

        def cut(layer: np.ndarray) -> np.ndarray:
            return (layer[..., ::-1, :] if mirrored else layer)[..., pick, :]

        return cut(self._radiance[which]), cut(self._rgb[which]), cut(self._valid[which])

    def whole(self, lines: int) -> Scene:
        width = self.side
        radiance = np.empty((len(self.bands), lines, width), np.float32)
        rgb, valid = np.empty((3, lines, width), np.float32), np.empty((lines, width), np.bool_)
        for start in range(0, lines, PUSHED):
            stop = min(start + PUSHED, lines)
            radiance[:, start:stop], rgb[:, start:stop], valid[start:stop] = self.lines(start, stop)
        return Scene(radiance, self.bands, valid, rgb)


def stream(detector: Detector, strip: Strip, lines: int) -> dict[str, object]:
    """Pushes all lines and reports memory, masks and plumes."""
    running = detector.stream(strip.side)
    masks, memory, plumes, expected = [], [], [], 0
    began = time.perf_counter()

    def take(blocks: list) -> None:
        nonlocal expected
        for block in blocks:
            if block.first_row != expected:
                raise SystemExit(f"line {expected} was lost: the next block begins with {block.first_row}")
            expected += block.mask.shape[0]
            masks.append(np.packbits(block.mask, axis=1))
            plumes.extend(block.plumes)
            memory.append((time.perf_counter() - began, resident_mb()))

    for start in range(0, lines, PUSHED):
        take(running.push(*strip.lines(start, min(start + PUSHED, lines))))
    take(running.close())
    seconds = time.perf_counter() - began
    if expected != lines:
        raise SystemExit(f"{lines} lines went in and {expected} came out")
    return {
        "seconds": seconds,
        "memory": memory,
        "mask": np.unpackbits(np.concatenate(masks), axis=1).astype(np.bool_)[:, : strip.side],
        "plumes": plumes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--model", default="flame-plus")
    parser.add_argument("--runtime", default="auto")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.width % PUSHED:
        raise SystemExit(f"the width must be a multiple of {PUSHED}")
    strip = Strip(3, given.width, given.seed)
    # Without a core: the masks of lines, which are given out before a plume's end is seen, never look for one.
    detector = Detector(given.model, given.runtime, asked=Asked(level="visible", core_sigmas=0.0))
    found = stream(detector, strip, given.lines)
    memory = found["memory"]
    # A minute into the stream, or a quarter of it where it is over sooner.
    settled = min(60.0, 0.25 * found["seconds"])
    start_mb = next(mb for at, mb in memory if at >= settled)
    growth = max(mb for at, mb in memory if at >= settled) / start_mb - 1.0
    print(
        f"{given.lines} lines of {given.width} x {len(strip.bands)} in {found['seconds']:.1f} s on {detector.runtime}: "
    )
    print(f"{given.lines / found['seconds']:.0f} lines/s, none lost, {len(found['plumes'])} plumes")
    print(f"resident {start_mb:.0f} MB after {settled:.0f} s, then at most {100 * growth:+.1f} %")
    whole = detector.run(strip.whole(given.lines))
    differing = np.flatnonzero((whole.mask != found["mask"]).any(axis=1))
    pixels = int((whole.mask != found["mask"]).sum())
    where = f", in lines {differing[0]} to {differing[-1]}" if differing.size else ""
    print(f"beside the whole scene at once: {int(whole.mask.sum())} plume pixels, {pixels} differ{where}")
    write_json(
        given.json,
        {
            "lines": given.lines,
            "width": given.width,
            "runtime": detector.runtime,
            "seconds": found["seconds"],
            "rss_growth_after_settling": growth,
            "settled_after_s": settled,
            "rss_mb": start_mb,
            "rss_mb_over_time": [[round(at, 2), round(mb, 1)] for at, mb in memory],
            "plumes": len(found["plumes"]),
            "plume_pixels": int(whole.mask.sum()),
            "differing_pixels": pixels,
        },
    )


if __name__ == "__main__":
    main()
