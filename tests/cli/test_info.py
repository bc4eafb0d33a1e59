"""`flame info` tells what a file is, to people and to programs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.errors import FlameError
from flame.physics import sensor


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    centres = np.append(sensor("aviris-ng").bands.methane().centres_nm, [640.0, 550.0, 460.0])
    rng = np.random.default_rng(0)
    radiance = rng.uniform(0.5, 2.0, (centres.size, 20, 30)).astype(np.float32)
    radiance[:, :5] = np.nan
    np.savez(tmp_path / "chip.npz", radiance=radiance, wavelength_nm=centres)
    return tmp_path / "chip.npz"


def test_for_people(chip: Path, tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["info", str(chip), "--plot", str(tmp_path / "a.png")], catch_exceptions=False)
    assert answer.exit_code == 0
    for words in (
        "20 lines x 30 columns",
        "75.00 % of the pixels",
        "fill 25.00 %",
        "flame-plus for any spectrometer",
        "72 from",
    ):
        assert words in answer.output
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_for_programs(chip: Path) -> None:
    facts = json.loads(CliRunner().invoke(app, ["info", str(chip), "--json"], catch_exceptions=False).output)
    assert facts["format"] == "npz"
    assert facts["usable_share"] == 0.75
    assert facts["geometry"] is None
    assert facts["bands"]["count"] == 72


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(FlameError, match="not in a format"):
        CliRunner().invoke(app, ["info", str(tmp_path / "a.txt")], catch_exceptions=False)
