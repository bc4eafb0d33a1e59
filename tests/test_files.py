"""A file is whole or not there."""

import errno
import json
import os
import stat
import threading
from pathlib import Path

import pytest

from flame.files import (
    WriteError,
    drop_torn_line,
    printable,
    remove_leftovers,
    require_writable,
    whole_file,
    write_json,
    write_whole,
)


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


@pytest.mark.parametrize(("left", "kept"), [("a\nb\nc", "a\nb\n"), ("a\n", "a\n"), ("a", ""), ("", "")])
def test_a_torn_line_is_cut_off_before_others_follow(left, kept, tmp_path):
    (tmp_path / "lines").write_text(left)
    drop_torn_line(tmp_path / "lines")
    assert (tmp_path / "lines").read_text() == kept
    drop_torn_line(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_undefined_figures_are_null(tmp_path):
    write_json(tmp_path / "a.json", {"f1": float("nan"), "bins": (1.0, float("inf")), "n": 3})
    assert json.loads((tmp_path / "a.json").read_text()) == {"f1": None, "bins": [1.0, None], "n": 3}


def test_nothing_laid_in_the_way_is_written_through(tmp_path):
    """The name is not to be foreseen: the one that used to be is a link to another's file here."""
    secret = tmp_path / "secret"
    secret.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / ".map.partial.tif").symlink_to(secret)
    (folder / "map.tif").symlink_to(secret)
    write_whole(folder / "map.tif", b"new")
    assert secret.read_text() == "mine"
    assert (folder / "map.tif").read_bytes() == b"new"
    assert not (folder / "map.tif").is_symlink()


def test_a_temporary_file_changed_for_a_link_is_refused(tmp_path):
    (tmp_path / "secret").write_text("mine")

    def write_with_a_thief():
        with whole_file(tmp_path / "a.txt") as partial:
            partial.unlink()
            partial.symlink_to(tmp_path / "secret")

    with pytest.raises(WriteError, match="cannot be written"):
        write_with_a_thief()
    assert [p.name for p in tmp_path.iterdir()] == ["secret"]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    names = set()
    barrier = threading.Barrier(8)

    def write(number):
        with whole_file(tmp_path / "a.txt") as partial:
            names.add(partial.name)
            barrier.wait()
            partial.write_text(str(number) * 10_000)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(names) == 8
    assert len(set((tmp_path / "a.txt").read_text())) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_file_and_folder_are_synced_around_the_rename(tmp_path, monkeypatch):
    events = []

    def fsync(descriptor):
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    real = Path.replace
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", lambda self, target: (events.append("rename"), real(self, target))[1])
    write_whole(tmp_path / "a.txt", "x")
    assert events == ["file", "rename", "folder"]


def test_files_have_the_rights_that_the_user_asks_for(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_a_full_disk_is_one_clear_error(tmp_path, monkeypatch):
    write_whole(tmp_path / "a.txt", "old")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)  # where a network or quota file system first tells
    with pytest.raises(WriteError, match=r"a\.txt: cannot be written \(No space left on device\); free") as caught:
        write_whole(tmp_path / "a.txt", "new")
    assert caught.value.disk_full
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_place_that_cannot_be_written_to_is_found_at_once(tmp_path):
    require_writable(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        with pytest.raises(WriteError, match="choose another place"):
            require_writable(place)


def test_long_and_odd_names_are_written(tmp_path):
    for name in ("x" * 250 + ".txt", "\udcff.txt", "a." + "b" * 200):
        write_whole(tmp_path / name, "x")
        assert (tmp_path / name).read_text() == "x"


def test_any_text_can_be_shown():
    assert printable("héllo [x] µ") == "héllo [x] µ"
    assert printable("a\n\x1b[31m\udcff") == "a\\n\\x1b[31m\\udcff"
    printable("\udcff\u202e").encode()


def test_what_a_killed_process_left_goes_and_what_is_being_written_stays(tmp_path):
    left = tmp_path / ".quicklook.0123456789abcdef.partial.png"
    young = tmp_path / ".maps.fedcba9876543210.partial.nc"
    for file in (left, young, tmp_path / ".notes.partial.png", tmp_path / "map.tif"):
        file.write_text("x")
    os.utime(left, (1, 1))
    with whole_file(tmp_path / "report.html") as partial:
        partial.write_text("new")
        os.utime(partial, (1, 1))
        remove_leftovers(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        young.name,
        ".notes.partial.png",
        "map.tif",
        "report.html",
    ]
    remove_leftovers(tmp_path / "none")
