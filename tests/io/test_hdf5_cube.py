"""Cubes in HDF5: any order of axes, any storage, the same numbers as h5py gives."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from flame.io import ReaderError
from flame.io.hdf5_cube import StoredCube
from flame.io.plain_cube import moves_of, runs_of

SHAPE = (11, 23, 17)
STORAGES = {
    "contiguous": {},
    "chunks": {"chunks": (4, 5, 6)},
    "deflate": {"chunks": (4, 5, 6), "compression": "gzip"},
    "shuffle": {"chunks": (3, 23, 4), "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": (11, 7, 17), "compression": "lzf"},
    "checksummed": {"chunks": (4, 5, 6), "compression": "gzip", "fletcher32": True},
}


@pytest.mark.parametrize("storage", list(STORAGES))
@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<u2"])
def test_any_storage_gives_the_same(tmp_path: Path, storage: str, axes: tuple[int, int, int], dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 60_000, SHAPE).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("cube", data=values, **STORAGES[storage])
    cube = values.transpose(axes).astype(np.float32)
    with h5py.File(tmp_path / "a.h5") as file:
        stored = StoredCube(tmp_path / "a.h5", file["cube"], axes)
        assert stored.shape == cube.shape
        bands = [cube.shape[0] - 1, 0, 4, 5, 6]
        for rows in (slice(0, cube.shape[1]), slice(3, 8), slice(cube.shape[1] - 1, cube.shape[1])):
            np.testing.assert_array_equal(stored.read(rows, bands), cube[bands, rows])
        mirrored = StoredCube(tmp_path / "a.h5", file["cube"], axes, mirrored=True)
        np.testing.assert_array_equal(mirrored.read(slice(2, 6), [1]), cube[[1], 2:6, ::-1])


@pytest.mark.parametrize("step", [1, 3, 5, 11])
def test_from_top_to_bottom_nothing_is_unpacked_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Whatever the blocks: pieces of 4 lines, of which the last has 3."""
    values = np.random.default_rng(0).random((11, 23, 17), dtype=np.float32)
    unpacked: list[tuple[int, ...]] = []
    piece = StoredCube._piece

    def counted(self: StoredCube, corner: tuple[int, ...], *more: object) -> np.ndarray:
        unpacked.append(corner)
        return piece(self, corner, *more)

    monkeypatch.setattr(StoredCube, "_piece", counted)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("cube", data=values, **STORAGES["deflate"])
    with h5py.File(tmp_path / "a.h5") as file:
        stored = StoredCube(tmp_path / "a.h5", file["cube"], (2, 0, 1))
        for first in range(0, 11, step):
            rows = slice(first, min(first + step, 11))
            expected = values.transpose(2, 0, 1)[[3, 16, 4], rows]
            np.testing.assert_array_equal(stored.read(rows, [3, 16, 4]), expected)
    assert sorted(unpacked) == sorted(set(unpacked))
    assert len(unpacked) == 3 * 5 * 2


def test_pieces_that_were_never_written_are_fill(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("cube", SHAPE, "f4", fillvalue=-9999.0, **STORAGES["deflate"])
        made[:4, :5] = 1.0
    with h5py.File(tmp_path / "a.h5") as file:
        read = StoredCube(tmp_path / "a.h5", file["cube"], (0, 1, 2)).read(slice(0, 23), [0, 10])
    assert (read[0, :5] == 1).all()
    assert (read[1] == -9999).all()


def test_a_piece_that_unpacks_to_something_else_is_refused(tmp_path: Path) -> None:
    """Neither more nor less than it should: a piece cannot be made to unpack to gigabytes."""
    import zlib

    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("cube", (4, 5, 6), "f4", **STORAGES["deflate"])
        made.id.write_direct_chunk((0, 0, 0), zlib.compress(b"\0" * 7))
    with h5py.File(tmp_path / "a.h5") as file, pytest.raises(ReaderError, match="too short"):
        StoredCube(tmp_path / "a.h5", file["cube"], (0, 1, 2)).read(slice(0, 5), [0])


def test_runs() -> None:
    assert runs_of([5, 1, 2, 3, 9]) == [(1, 4), (5, 6), (9, 10)]
    assert runs_of([5, 1, 2, 3, 9], gap=1) == [(1, 6), (9, 10)]


def test_moves() -> None:
    """Bands 4 to 9 of a cube: what is wanted of them goes to its place, run by run."""
    moves = moves_of([7, 8, 2, 5, 4, 9], 4, 10)
    assert moves == [
        (slice(3, 5), slice(0, 2)),
        (slice(1, 2), slice(3, 4)),
        (slice(0, 1), slice(4, 5)),
        (slice(5, 6), slice(5, 6)),
    ]


def test_a_dataset_in_one_piece_that_the_file_is_too_short_for(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("cube", data=np.ones(SHAPE, "f4"))
    with h5py.File(tmp_path / "a.h5") as file:
        stored = StoredCube(tmp_path / "a.h5", file["cube"], (2, 0, 1))
        os.truncate(tmp_path / "a.h5", file["cube"].id.get_offset() + 400)
        with pytest.raises(ReaderError, match="ended while it was read"):
            stored.read(slice(0, 11), [3])
