"""No output may destroy what a command reads, or another output."""

import os

import numpy as np
import pytest
import rasterio
from typer.testing import CliRunner

from flame.cli.app import app, main
from flame.cli.outputs import refuse_overwriting
from flame.errors import FlameError


def refused(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(result.exception, FlameError), result.output
    return str(result.exception)


@pytest.fixture
def cube(tmp_path):
    """A TIFF that no command may read before it looks where its output goes."""
    path = tmp_path / "cube.tif"
    path.write_bytes(b"II*\x00 the only copy")
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["filter", "mag1c", "cube.tif", "--out", "cube.tif"],
        ["filter", "mag1c", "cube.tif", "--out", "x.tif", "--plot", "link.tif"],
        ["filter", "mag1c", "cube.tif", "--out", "hard.tif"],
        ["info", "cube.tif", "--plot", "cube.tif"],
        ["spectrum", "--file", "cube.tif", "--csv", "./cube.tif"],
        ["spectrum", "--file", "cube.tif", "--plot", "cube.tif"],
        ["fly", "cube.tif", "--to", "cube.tif"],
        ["simulate", "--background", "cube.tif", "--contact-sheet", "cube.tif"],
        ["export-flight", "--scene", "cube.tif", "--out", "cube.tif"],
    ],
    ids=lambda command: f"{command[0]}-{command[-1]}",
)
def test_an_input_is_never_overwritten(command, cube, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.tif").symlink_to(cube)
    os.link(cube, tmp_path / "hard.tif")
    assert "is the input, which would be overwritten" in refused(*command)
    assert cube.read_bytes() == b"II*\x00 the only copy"


@pytest.mark.parametrize(
    ("scene", "out"),
    [
        ("line.img", "line.img.hdr"),
        ("line.hdr", "line.img"),
        ("EMIT_L1B_RAD_001_20230614T094107_2316506_004.nc", "EMIT_L1B_OBS_001_20230614T094107_2316506_004.nc"),
        ("X-L1B-20230614T094107Z-METADATA.XML", "X-L1B-20230614T094107Z-SPECTRAL_IMAGE_SWIR.TIF"),
    ],
)
def test_nor_is_what_is_read_with_it(scene, out, tmp_path):
    (tmp_path / scene).write_bytes(b"scene")
    with pytest.raises(FlameError, match="is read with the scene"):
        refuse_overwriting([tmp_path / out], [tmp_path / scene])
    refuse_overwriting([tmp_path / "elsewhere" / out, tmp_path / "map.tif"], [tmp_path / scene])


def test_nor_a_file_of_a_folder(tmp_path):
    tile = tmp_path / "tile"
    tile.mkdir()
    with rasterio.open(tile / "labelbinary.tif", "w", "GTiff", 4, 4, 1, dtype="uint8") as file:
        file.write(np.zeros((1, 4, 4), np.uint8))
    before = (tile / "labelbinary.tif").read_bytes()
    assert "lies in the folder of the scene" in refused("fly", tile, "--to", tile / "labelbinary.tif")
    assert "lies in the folder of the scene" in refused("filter", "mf", tile, "--out", tile / "mag1c.tif")
    assert (tile / "labelbinary.tif").read_bytes() == before


def test_two_outputs_are_two_files(tmp_path):
    out = tmp_path / "z.tif"
    assert "two outputs" in refused("filter", "mf", tmp_path / "x.npz", "--out", out, "--plot", out)
    assert "two outputs" in refused("spectrum", "--sensor", "emit", "--csv", out, "--plot", out)
    assert not out.exists()


@pytest.mark.parametrize("words", [["detect", "x.npz", "--out", ""], ["detect", "x.npz", "--out="], ["info", ""]])
def test_an_empty_argument_is_not_the_current_folder(words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["flame", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "nothing is given after" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
