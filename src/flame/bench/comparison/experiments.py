"""The experiments by name, and which methods each is about. No PyTorch is needed to read this."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["EXPERIMENTS", "Experiment", "published"]


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper.

    Attributes:
        title: Heading of its page.
        summary: One line for the command's help.
        methods: Keys of `flame.bench.comparison.methods.METHODS`; empty for all that no other table is about.
        where: What it is in the paper.
        every: Whether it is about all methods, those of other tables too.
    """

    title: str
    summary: str
    methods: tuple[str, ...] = ()
    where: str = ""
    every: bool = False


_SHOWN = ("mag1c", "unet-mag1c-sas", "unet", "segformer-cu", "flame")
"""The methods of the paper's qualitative figures."""

EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment(
        "Comparison of methods", "Train and judge every method: the paper's main table (hours).", where="tab:main"
    ),
    "backbones": Experiment(
        "Backbones under FLAME's heads",
        "Train FLAME on every neural operator.",
        ("flame", "flame-fno", "flame-f-fno", "flame-tucker-fno", "flame-uno", "flame-wno"),
        "tab:ablation2",
    ),
    "components": Experiment(
        "Components of the score",
        "Train FLAME with none, some and all of its score.",
        ("flame-no-score", "flame-fixed", "flame-weights", "flame"),
        "tab:component_ablation, fig:score_progression",
    ),
    "ablation": Experiment(
        "Effect of the score", "Train FLAME with and without its score.", ("flame-no-score", "flame"), "tab:ablation"
    ),
    "plume-size": Experiment(
        "Figures by plume size", "F1 and false positives by plume size.", _SHOWN, "fig:plume_analysis_a, _b"
    ),
    "bubble": Experiment("Speed, accuracy and size", "Speed, accuracy and size of every method.", where="fig:bubble"),
    "curriculum": Experiment(
        "Curriculum",
        "FLAME's score after either phase of its training beside MAG1C-SAS, and beside the probability.",
        ("mag1c-sas", "flame"),
        "fig:curriculum_a, fig:curriculum_b",
    ),
    "qualitative": Experiment(
        "Masks and maps",
        "What methods find on a strong, a weak and an empty tile.",
        _SHOWN,
        "fig:qualitative, fig:qualitative_baselines_strong, _weak, _non",
    ),
    "latency": Experiment(
        "Time a tile", "Time of every method a tile, measured in turn.", where="tab:main", every=True
    ),
}


@cache
def _tables() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(
        (files("flame.bench") / "data" / "paper_tables.json").read_text(encoding="utf-8")
    )
    return stored


def published(experiment: str, method: str) -> dict[str, float] | None:
    """The paper's figures of a method in a table; None if it has none there."""
    row: dict[str, float] | None = _tables().get(experiment, {}).get(method)
    return row
