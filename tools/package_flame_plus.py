"""Packages a trained second flame-plus with what was measured of it.

    python tools/package_flame_plus.py RUN OUT.onnx [--points operating_points.json --table detection.json]

Benchmarks judge packages, so a network is packaged twice: first without figures, and with them when it has been
measured. The figures of the sensitivities are those of the real scenes, which the network was not trained on; the
manifest names the files they came from.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from flame.onboard import OperatingPoint
from flame.pipeline.export_plus import USUAL_POINTS, export_plus

_JUDGED_ON = "real"


def points(measured: dict[str, Any]) -> dict[str, OperatingPoint]:
    """The sensitivities with what each is worth on real ground."""
    return {
        name: OperatingPoint(
            each["threshold"],
            each["core_sigmas"],
            each["precision"],
            each["recall"],
            each["false_plumes_per_10_megapixels"],
            USUAL_POINTS[name].level_core_sigmas,
        )
        for name, each in measured[_JUDGED_ON]["sensitivities"].items()
    }


def means(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Mean F1 over all rows of the fair table, beside the best filter and the limit."""
    found = {}
    for label in ("250", "500", "1000"):
        rows = [row["f1"][label] for row in table["rows"] if "limit" in row["f1"][label]]
        filters = [max(v["best"] for m, v in row.items() if "how" in v and m != "limit") for row in rows]
        found[f"f1_at_{label}_ppm_m"] = {
            "network": float(np.mean([row[name]["pixels"] for row in rows])),
            "network_shipped": float(np.mean([row[name]["shipped"] for row in rows])),
            "network_unasked": float(np.mean([row[name]["unasked"] for row in rows])),
            "best_filter": float(np.mean(filters)),
            "limit": float(np.mean([row["limit"]["best"] for row in rows])),
            "rows": len(rows),
        }
    return found


def main() -> None:
    """Reads the command line and writes the package."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("run", type=Path)
    asked.add_argument("out", type=Path)
    asked.add_argument("--points", type=Path, help="what benchmarks/operating_points.py wrote")
    asked.add_argument("--table", type=Path, help="what benchmarks/detection.py wrote")
    asked.add_argument("--name", default="flame-plus")
    asked.add_argument("--note", action="append", default=[], metavar="NAME=TEXT")
    given = asked.parse_args()
    metrics: dict[str, Any] = {"files": [path.name for path in (given.points, given.table) if path]}
    sensitivities = None
    if given.points:
        measured = json.loads(given.points.read_text())
        metrics["operating_points"] = {kind: each for kind, each in measured.items() if isinstance(each, dict)}
        sensitivities = points(measured)
    if given.table:
        metrics["detection"] = means(json.loads(given.table.read_text()), given.name)
    notes = dict(note.split("=", 1) for note in given.note)
    _, agreements = export_plus(
        given.run, given.out, name=given.name, sensitivities=sensitivities, notes=notes, metrics=metrics
    )
    for each in agreements:
        print(each)


if __name__ == "__main__":
    main()
