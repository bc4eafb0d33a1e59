"""The page on the simulator: its tables are the presets' own numbers."""

from dataclasses import fields
from pathlib import Path

import pytest

from flame.simulate import PRESETS

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")


def shown(value):
    if isinstance(value, tuple):
        return ", ".join(f"{name} {weight:g}" for name, weight in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("part", ["surface", "atmosphere", "instrument"])
def test_every_distribution_is_documented_as_it_is(part):
    wide, narrow = (getattr(PRESETS[name], part) for name in ("wide", "narrow"))
    for entry in fields(wide):
        row = f"| `{entry.name}` | {shown(getattr(wide, entry.name))} | {shown(getattr(narrow, entry.name))} |"
        assert row in PAGE
