"""A file is whole or not there."""

import json

import pytest

from flame.files import whole_file, write_json, write_whole


def fail_half_way(path):
    with whole_file(path) as partial:
        partial.write_text("ne")
        raise RuntimeError("half way")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "new" / "map.tif"
    write_whole(path, "old")
    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way(path)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_the_temporary_name_keeps_the_suffix(tmp_path):
    with whole_file(tmp_path / "map.tif") as partial:
        assert partial.suffix == ".tif"
        partial.write_bytes(b"new")
    assert (tmp_path / "map.tif").read_bytes() == b"new"


def test_undefined_figures_are_null(tmp_path):
    write_json(tmp_path / "a.json", {"f1": float("nan"), "bins": (1.0, float("inf")), "n": 3})
    assert json.loads((tmp_path / "a.json").read_text()) == {"f1": None, "bins": [1.0, None], "n": 3}
