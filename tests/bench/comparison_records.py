"""Kept files of a comparison that was never run: figures and maps as runs leave them, from a seed."""

from pathlib import Path

import numpy as np

from flame.bench.comparison.methods import METHODS
from flame.bench.comparison.records import Records
from flame.bench.comparison.scales import SCALES
from flame.bench.comparison.tiles import PANEL_KINDS, Panel
from flame.detection import PixelCounts
from flame.detection.metrics import _bin_names

SIDE = 48


def made_up_panels() -> list[Panel]:
    """Five tiles: plumes of falling size on striped ground, the last one empty."""
    rows, cols = np.mgrid[:SIDE, :SIDE]
    panels = []
    for number, kind in enumerate(PANEL_KINDS):
        rgb = np.stack([0.5 + 0.3 * np.sin((rows + k * cols) / (3 + number)) for k in range(3)]).astype(np.float32)
        label = (rows - 24) ** 2 + 0.3 * (cols - 24) ** 2 < (90, 60, 40, 12, -1)[number]
        panels.append(Panel(kind, f"tile_{number}", rgb, label, np.ones((SIDE, SIDE), bool)))
    return panels


def _metrics(counts: PixelCounts) -> dict:
    sizes = {
        name: PixelCounts(0, counts.fp // 6, 0, counts.tn // 6) if name == "0" else counts for name in _bin_names()
    }
    return {**counts.summary(), "by_plume_size": {name: part.summary() for name, part in sizes.items()}}


def make_up_run(records: Records, key: str, f1: float, seed: int = 0) -> None:
    """A run with that F1, about, and maps that miss a part of every plume and mark a corner."""
    method, rng = METHODS[key], np.random.default_rng((len(key), seed))
    found = round(1000 * f1)
    counts = PixelCounts(found, 1000 - found, 1000 - found, 100_000)
    rules = {rule: {**counts.summary(), "threshold": 0.3} for rule in ("best", "best_opened", "best_smoothed")}
    rules["best_smoothed"]["smoothing_px"] = 1.5
    if key != "noise-aware-mf":
        rules |= {rule: {**counts.summary(), "threshold": 0.5} for rule in ("canonical", "canonical_opened")}
    maps = {}
    for panel in made_up_panels():
        mask = panel.label & (np.arange(SIDE) > 20) | (np.add.outer(np.arange(SIDE), np.arange(SIDE)) < 8)
        maps[f"mask/{panel.kind}"] = mask
        score = 1500 * mask + rng.normal(0, 200, mask.shape)
        if method.filtered or key.startswith("flame"):
            maps[f"score/{panel.kind}"] = score.astype(np.float16)
        if key == "flame":
            maps[f"phase-1 score/{panel.kind}"] = (0.6 * score).astype(np.float16)
        if not method.filtered:
            maps[f"probability/{panel.kind}"] = np.clip(255 * score / 2000, 0, 255).astype(np.uint8)
    record = {
        "method": key,
        "title": method.title,
        "family": method.family,
        "seed": seed,
        "scale": SCALES["tiny"].facts(),
        "threshold_chosen_on_test": key == "noise-aware-mf",
        "parameters": None if method.filtered else 10 * len(key) ** 2 * 1000,
        "metrics": _metrics(counts),
        "rules": rules,
    }
    records.keep_run(record, maps)


def made_up(folder: Path, f1: dict[str, float]) -> Records:
    """Kept files with these runs, all with a time."""
    records = Records(folder)
    records.take_data({"source": "made up", "train": 16, "test": 8})
    records.keep_panels(made_up_panels())
    for key, value in f1.items():
        make_up_run(records, key, value)
    times = {
        key: {"title": METHODS[key].title, "family": METHODS[key].family, "ms": 3.0 * 1.7**place, "filter_ms": 1.0}
        for place, key in enumerate(f1)
    }
    machine = {"processor": "x86_64", "threads": 1, "device": "cpu"}
    records.keep_latency({"scale": SCALES["tiny"].facts(), "rounds": 3, "machine": machine, "methods": times})
    return records
