"""The commands on one generated file of each format: is the plume found, and in the right place on Earth?

    python tools/format_table.py                          # the `flame` of this Python
    python tools/format_table.py --flame venv/bin/flame   # another install's, for example one without extras

Prints the table of docs/formats.md. The files are those of the readers' tests, the commands are run as a user runs
them. The exit code is 0 if every distance is below one pixel and every flag as it was put.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

__all__ = ["Row", "row_of"]

TITLES = (
    "format", "found by", "small sources on the map", "place of the strongest pixel", "the plume's centre",
    "strongest pixel to true maximum", "flags",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One format; distances on the ground in pixels.

    Attributes:
        name: The format.
        detector: What found the plume.
        small_sources: Largest distance of four small squares on the filter's map.
        place: As in `eight_formats.Found`, like all below.
        centre: See `place`.
        peak: See `place`.
        holds_source: See `place`.
        flags_right: Whether `flame info` and the report count every cause as it was put.
    """

    name: str
    detector: str
    small_sources: float
    place: float
    centre: float
    peak: float
    holds_source: bool
    flags_right: bool

    @property
    def right(self) -> bool:
        """Whether all is as it should be. The peak of a score is a matter of the detector, not of the file."""
        near = max(self.small_sources, self.place, self.centre) < 1.0
        return near and self.holds_source and self.flags_right

    def line(self) -> str:
        """The row as Markdown."""
        flags = "as put" if self.flags_right else "WRONG"
        distances = f"{self.small_sources:.2f} | {self.place:.3f} | {self.centre:.2f} | {self.peak:.1f}"
        return f"| {self.name} | {self.detector} | {distances} | {flags} |"


def row_of(name: str, flame: str, folder: Path) -> Row:
    """Makes the files of a format and runs the commands on them."""
    samples = import_module("eight_formats")

    def run(*words: object) -> str:
        done = subprocess.run([flame, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"flame {words[0]} on {name} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    (folder / "squares").mkdir()
    squares = samples.make_sample(name, folder / "squares", samples.SQUARES)
    run("filter", "mag1c", squares.path, "--out", folder / "enhancement.tif")
    places = samples.places_of_squares(folder / "enhancement.tif")
    farthest = max(
        float(squares.pixels_off(*places, squares.latitude[at], squares.longitude[at]).min()) for at in samples.SQUARES
    )
    (folder / "plume").mkdir()
    sample = samples.make_sample(name, folder / "plume")
    facts = json.loads(run("info", sample.path, "--json"))
    run("detect", sample.path, "--out", folder / "out")
    (products,) = (child for child in (folder / "out").iterdir() if child.is_dir())
    found = samples.found_plume(sample, products)
    counted = {cause: round(share * sample.latitude.size) for cause, share in facts["flagged_share"].items()}
    model = json.loads((products / "detection.json").read_text())["model"]
    return Row(
        name=name,
        detector=model.split(" (")[0],
        small_sources=farthest,
        place=found.place,
        centre=found.centre,
        peak=found.peak,
        holds_source=found.holds_source,
        flags_right=counted == found.flags == sample.flags,
    )


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flame", default=str(Path(sys.executable).with_name("flame")), help="the command to run")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "io"))
    rows = []
    print(f"| {' | '.join(TITLES)} |\n|---|---|---:|---:|---:|---:|---|")
    for name in import_module("eight_formats").FORMATS:
        with tempfile.TemporaryDirectory(prefix="flame-formats-") as folder:
            rows.append(row_of(name, given.flame, Path(folder)))
        print(rows[-1].line(), flush=True)
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    worst = {key: float(np.max([getattr(row, key) for row in rows])) for key in ("small_sources", "place", "centre")}
    print("largest, in pixels: " + ", ".join(f"{key} {value:.3f}" for key, value in worst.items()))
    return 0 if all(row.right for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
