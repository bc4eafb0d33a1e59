import json

import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.errors import FlameError


def run(*arguments):
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_tiles_a_check_and_a_sheet_in_one_go(tmp_path):
    out, figures, plot, sheet = (tmp_path / name for name in ("set", "check.json", "check.png", "sheet.png"))
    result = run(
        "--out", out, "--tiles", 3, "--size", 24, "--seed", 2, "--workers", 1, "--check", "--json", figures, "--plot",
        plot, "--contact-sheet", sheet,
    )  # fmt: skip
    assert result.exit_code == 0
    assert "3 tiles in" in result.output
    assert (out / "train.csv").is_file()
    stored = json.loads(figures.read_text())
    assert {"matched_filter_noise_ppm_m", "eigenvalue_worst_ratio", "plume_pixel_share"} <= set(stored)
    assert plot.read_bytes()[:4] == sheet.read_bytes()[:4] == b"\x89PNG"

    again = run("--tiles", 3, "--size", 24, "--check", "--workers", 1, "--reference", out, "--json", figures)
    assert again.exit_code == 0
    assert json.loads(figures.read_text())["reference"] == str(out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "nothing to do"), (("--out", "x", "--json", "y"), "belong to --check"),
     (("--out", "x", "--preset", "no"), "no preset"), (("--out", "x", "--background", "no.npz"), "no such file")],
)  # fmt: skip
def test_mistakes_are_explained(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlameError, match=message):
        run(*arguments)
