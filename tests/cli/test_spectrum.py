"""`flame spectrum` as a user runs it."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app, main
from flame.errors import FlameError
from flame.physics import sensor, unit_absorption


def test_csv_holds_the_spectrum(tmp_path):
    out = tmp_path / "s.csv"
    result = CliRunner().invoke(app, ["spectrum", "--sensor", "aviris-ng", "--csv", str(out)])
    assert result.exit_code == 0, result.output
    with out.open() as stream:
        rows = list(csv.DictReader(stream))
    bands = sensor("aviris-ng").bands.methane()
    assert len(rows) == 72
    np.testing.assert_allclose(
        [float(r["unit_absorption_per_1e5_ppm_m"]) for r in rows], unit_absorption(bands), atol=1e-7
    )


def test_all_bands_reach_beyond_the_window():
    result = CliRunner().invoke(app, ["spectrum", "--sensor", "emit", "--all-bands"])
    assert "148 bands 1402.0" in result.output


def test_all_bands_of_a_file_too_even_if_it_does_not_say_its_unit(tmp_path):
    nm = np.arange(1500.0, 2450.0, 10.0)
    listed = ", ".join(f"{centre:g}" for centre in nm)
    header = f"samples = 4\nlines = 4\nbands = {nm.size}\ndata type = 4\ninterleave = bsq\nwavelength = {{{listed}}}\n"
    (tmp_path / "cube.hdr").write_text(f"ENVI\n{header}")
    (tmp_path / "cube.img").write_bytes(np.ones((nm.size, 4, 4), "<f4").tobytes())
    words = ["spectrum", "--file", str(tmp_path / "cube.img")]
    assert "95 bands 1500.0" in CliRunner().invoke(app, [*words, "--all-bands"], catch_exceptions=False).output
    assert "32 bands 2130.0" in CliRunner().invoke(app, words, catch_exceptions=False).output


@pytest.mark.parametrize("arguments", [["spectrum"], ["spectrum", "--sensor", "emit", "--file", "x"]])
def test_needs_one_source_of_bands(arguments):
    with pytest.raises(FlameError, match="either --sensor NAME"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_mistake_is_one_line_and_exit_code_1(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["flame", "spectrum", "--sensor", "landsat"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("error: no sensor 'landsat'")
    assert "Traceback" not in error
