"""A short campaign of `tools/fuzz.py` with a fixed seed: damaged files are read or refused, never anything else."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "fuzz.py"
CASES = 360


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is bounded by Linux's means")
def test_no_damaged_file_of_any_format_gives_a_raw_exception():
    command = [sys.executable, str(TOOL), "--mutations", str(CASES), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    table = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    (total,) = [line.split()[1:] for line in table if line.startswith("all ")]
    read, refused, *bad = map(int, total)
    assert bad == [0, 0, 0]
    assert read + refused == CASES
    assert refused > CASES / 3  # the damage is real
