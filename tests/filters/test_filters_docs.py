"""The thresholds of docs/filters.md are the registry's."""

from pathlib import Path

from flame.filters import FILTERS

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text(encoding="utf-8")


def test_table_states_units_and_thresholds():
    for name, entry in FILTERS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        threshold = "none published" if entry.threshold is None else f"{entry.threshold:g}"
        assert row.endswith(f"| {entry.unit} | {threshold} |")
