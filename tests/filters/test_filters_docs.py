"""The examples of docs/filters.md run as they stand, and its thresholds are the registry's."""

import re
from pathlib import Path

from flame.filters import FILTERS

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text(encoding="utf-8")


def test_examples_run(capsys):
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(example, "docs/filters.md", "exec"), names)
    told = capsys.readouterr().out
    assert re.search(r"MAG1C: \d+ pixels above 300 ppm m", told)
    assert "(72,) True" in told


def test_table_states_units_and_thresholds():
    for name, entry in FILTERS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        threshold = "none published" if entry.threshold is None else f"{entry.threshold:g}"
        assert row.endswith(f"| {entry.unit} | {threshold} |")
