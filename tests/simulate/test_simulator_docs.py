"""The page on the simulator: its tables are the presets' own numbers."""

from dataclasses import fields
from pathlib import Path

import pytest

from flame.simulate import PRESETS

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")


def shown(value):
    if isinstance(value, tuple) and isinstance(value[0], float):
        return (" to " if len(value) == 2 else ", ").join(f"{number:g}" for number in value)
    if isinstance(value, tuple):
        return ", ".join(f"{name} {weight:g}" for name, weight in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


COLUMNS = ("cluttered", "permian", "quiet", "narrow")


@pytest.mark.parametrize("part", ["surface", "atmosphere", "instrument", "plume", "label"])
def test_every_distribution_is_documented_as_it_is(part):
    settings = [getattr(PRESETS[name], part) for name in COLUMNS]
    for entry in fields(settings[0]):
        row = " | ".join(shown(getattr(preset, entry.name)) for preset in settings)
        assert f"| `{entry.name}` | {row} |" in PAGE


def test_shares_of_the_mixture_are_documented_as_they_are():
    shares = ", ".join(f"{100 * regime.share:.0f} % `{regime.name}`" for regime in PRESETS["wide"].regimes)
    assert shares in PAGE
