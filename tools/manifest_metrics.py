"""Gather what a model's manifest says of its quality from the figures in its results folder.

Reads `metrics_SET.json` (of `flame evaluate`) and `limit_SET.json` (of `flame bench limit`) there, for the model's best
thresholds `SET.json` (of `flame bench robustness`) in another folder, and writes `manifest_metrics.json`, which
`flame export --metrics` takes. The filters stand there under the same rules as the model.

    python tools/manifest_metrics.py results/flame-plus --robustness results/robustness simulated="200 tiles of ..."
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RATIOS = ("f1", "iou", "precision", "recall", "pixel_fpr", "tile_fpr", "auprc")
CHOSEN = ("best_opened", "best_smoothed")


def gather(folder: Path, robustness: Path | None, name: str, what: str) -> dict[str, Any]:
    """The entry of one set: the model as shipped, at its best threshold, the filters, the limit."""
    shipped = json.loads((folder / f"metrics_{name}.json").read_text())
    limit = json.loads((folder / f"limit_{name}.json").read_text())
    rows = {(key, rule): row["f1"] for key, rules in limit["filters"].items() for rule, row in rules.items()}
    best = max(rows, key=rows.__getitem__)
    entry: dict[str, Any] = {"what": what, **{key: shipped[key] for key in RATIOS}}
    if robustness is not None:
        own = json.loads((robustness / f"{name}.json").read_text())["rules"]
        entry |= {f"{rule}_f1": own[rule]["f1"] for rule in CHOSEN}
    entry |= {f"mag1c_{rule}_f1": rows["mag1c", rule] for rule in ("canonical_opened", "best", *CHOSEN)}
    entry["best_filter"] = {"filter": best[0], "rule": best[1], "f1": rows[best]}
    entry["limit_f1"] = limit["limit"]["f1"]
    return entry


def main() -> None:
    """Write the file beside the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--robustness", type=Path)
    parser.add_argument("sets", nargs="+", metavar="SET=WHAT")
    given = parser.parse_args()
    sets = dict(entry.split("=", 1) for entry in given.sets)
    gathered = {name: gather(given.folder, given.robustness, name, what) for name, what in sets.items()}
    (given.folder / "manifest_metrics.json").write_text(json.dumps(gathered, indent=1) + "\n")


if __name__ == "__main__":
    main()
