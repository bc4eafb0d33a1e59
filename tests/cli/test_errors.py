"""Errors reach the user as they are: one line, nothing taken for markup, no control characters."""

import sys

import numpy as np
import pytest

import flame.cli.app as cli
from flame.errors import FlameError
from tiny_models import CENTRES_NM, plume_scene


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("scene[a].hdr: no such file", "error: scene[a].hdr: no such file"),
        ("[/x]: of no format", "error: [/x]: of no format"),
        ("[bold]x[/bold] [red", "error: [bold]x[/bold] [red"),
        ("a\x1b[2Jb\udcff", "error: a\\x1b[2Jb\\udcff"),
        ("x" * 300, "error: " + "x" * 300),
    ],
)
def test_an_error_is_printed_as_it_is(words, shown, monkeypatch, capsys):
    def fail():
        raise FlameError(words)

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == shown + "\n"


def test_a_missing_file_with_brackets_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["flame", "filter", "mf", str(tmp_path / "scene[a].hdr"), "--out", "x.tif"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "scene[a].hdr" in capsys.readouterr().err


def test_paths_with_brackets_are_printed_as_they_are(monkeypatch, capsys, tmp_path):
    scene, _ = plume_scene(30, 30)
    chip, out = tmp_path / "scene[a].npz", tmp_path / "[/x].tif"
    np.savez(chip, radiance=scene.radiance, wavelength_nm=np.array(CENTRES_NM), fwhm_nm=np.full(4, 6.0))
    out.parent.mkdir(exist_ok=True)
    monkeypatch.setattr(sys, "argv", ["flame", "filter", "mf", str(chip), "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    told = capsys.readouterr().out
    assert "scene[a].npz" in told
    assert f"wrote {out}" in told


def test_the_demonstration_names_a_folder_with_brackets(monkeypatch, capsys, tmp_path):
    class Stop(FlameError):
        pass

    def told(out, *given):
        given[-1](f"writing products to {out}")
        raise Stop("enough")

    monkeypatch.setattr("flame.pipeline.demo.run_demo", told)
    folder = tmp_path / "[bold]demo"
    words = ["flame", "demo", "--out", str(folder), "--model", "noise-aware-mf"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit):
        cli.main()
    assert "[bold]demo" in capsys.readouterr().out.replace("\n", "")
