"""The tile cache: exact, resumable after a kill, honest about damage, and free of torch."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import cache_tiles
import numpy as np
import pytest
from cache_tiles import COUNT, SIZE, brightness, make_all_but_two, make_tile, source_of

from flame.io import starcop
from flame.physics import SENSORS
from flame.training.cache import CachedTile, CacheError, DatasetSource, TileCache, build_cache, mag1c_sas_teacher
from flame.training.cache.format import HEADER_BYTES, CacheFile, CacheSpec, State, partial_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.cache"


@pytest.fixture
def cache(path: Path) -> TileCache:
    build_cache(path, source_of(), brightness)
    return TileCache(path)


def assert_is(cached: CachedTile, index: int) -> None:
    tile = make_tile(index)
    valid = tile.scene.valid
    assert cached.name == tile.name
    assert cached.emission_kg_h == tile.emission_kg_h
    np.testing.assert_array_equal(cached.valid, valid)
    np.testing.assert_array_equal(cached.radiance[:, valid], tile.scene.radiance[:, valid])
    assert (cached.radiance[:, ~valid] == 0).all()
    np.testing.assert_array_equal(cached.rgb[:, valid], tile.scene.rgb[:, valid])
    np.testing.assert_array_equal(cached.label, tile.label)
    np.testing.assert_array_equal(cached.teacher_ppm_m, brightness(tile.scene))
    np.testing.assert_array_equal(cached.enhancement_ppm_m, tile.enhancement_ppm_m)


def test_tiles_come_back_by_name(cache: TileCache) -> None:
    assert len(cache) == COUNT
    assert cache.names == [f"sim_{index:04d}" for index in range(COUNT)]
    assert cache.shape == (SIZE, SIZE)
    assert cache.bands == cache_tiles.BANDS
    for index in range(COUNT):
        assert_is(cache[index], index)
    assert np.isnan(cache.emission_kg_h[3])
    assert cache.emission_kg_h[5] == 500.0
    expected = [(make_tile(index).label & make_tile(index).scene.valid).sum() for index in range(COUNT)]
    np.testing.assert_array_equal(cache.plume_pixels(), expected)
    cache.check()


def test_tiles_cannot_be_written_to(cache: TileCache) -> None:
    with pytest.raises(ValueError, match="read-only"):
        cache[0].radiance[0, 0, 0] = 1.0


def test_layers_are_aligned_and_contiguous(cache: TileCache) -> None:
    offsets, size = CacheFile(cache.path).spec.offsets()
    assert all(offset % 4096 == 0 for offset in offsets.values())
    assert cache.path.stat().st_size == size
    assert cache[1].radiance.flags.c_contiguous


def test_a_batch_is_read_into_its_arrays(cache: TileCache) -> None:
    batch = cache.new_batch(3)
    radiance = batch.radiance
    for order in ([4, 0, 6], [1, 1, 2]):
        assert cache.read_into(order, batch) == [f"sim_{index:04d}" for index in order]
        assert batch.radiance is radiance
        for place, index in enumerate(order):
            tile = cache[index]
            np.testing.assert_array_equal(batch.radiance[place], tile.radiance)
            np.testing.assert_array_equal(batch.rgb[place], tile.rgb)
            np.testing.assert_array_equal(batch.label[place], tile.label)
            np.testing.assert_array_equal(batch.valid[place], tile.valid)
            np.testing.assert_array_equal(batch.teacher_ppm_m[place], tile.teacher_ppm_m)
            np.testing.assert_array_equal(batch.enhancement_ppm_m[place], tile.enhancement_ppm_m)


def test_crops_cut_every_layer_alike(cache: TileCache) -> None:
    batch = cache.new_batch(2, crop=(5, 4))
    cache.read_into([2, 3], batch, corners=[(0, 8), (7, 1)])
    np.testing.assert_array_equal(batch.radiance[0], cache[2].radiance[:, 0:5, 8:12])
    np.testing.assert_array_equal(batch.label[1], cache[3].label[7:12, 1:5])
    np.testing.assert_array_equal(batch.teacher_ppm_m[1], cache[3].teacher_ppm_m[7:12, 1:5])
    with pytest.raises(CacheError, match="leaves tiles"):
        cache.read_into([2, 3], batch, corners=[(0, 9), (0, 0)])
    with pytest.raises(CacheError, match="cannot cut"):
        cache.new_batch(1, crop=(13, 4))
    with pytest.raises(CacheError, match="cannot take 1"):
        cache.read_into([2], batch)


def test_a_cache_travels_as_its_path(cache: TileCache) -> None:
    sent = pickle.dumps(cache)
    assert len(sent) < 1000
    assert_is(pickle.loads(sent)[2], 2)


def test_several_processes_build_the_same_bytes(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    build_cache(tmp_path / "one", source_of(), brightness)
    report = build_cache(
        tmp_path / "two", source_of(), brightness, workers=2, progress=lambda done, of: steps.append((done, of))
    )
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert steps == [(done, COUNT) for done in range(1, COUNT + 1)]
    assert report.written == COUNT


def test_a_killed_build_goes_on_where_it_stopped(tmp_path: Path, path: Path) -> None:
    here = Path(cache_tiles.__file__).parent
    with subprocess.Popen([sys.executable, here / "cache_tiles.py", path], stdout=subprocess.PIPE, text=True) as build:
        for line in build.stdout:
            if line.strip() == "4":
                break
        build.send_signal(signal.SIGKILL)
    assert not path.exists()
    with pytest.raises(CacheError, match="interrupted, run it again"):
        TileCache(path)
    report = build_cache(path, source_of(), brightness)
    assert (report.kept, report.written, report.failures) == (4, COUNT - 4, ())
    build_cache(tmp_path / "whole", source_of(), brightness)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(path.parent.glob("*.partial"))


def test_a_torn_tile_is_made_again(path: Path) -> None:
    partial_file = path.with_name("train.cache.0123.partial")
    build_cache(path, source_of(), brightness)
    path.rename(partial_file)
    file = CacheFile(partial_file, writable=True)
    file.arrays["radiance"][2, 5, 5, 5] += 1
    file.arrays["state"][6] = State.EMPTY
    file.flush()
    report = build_cache(path, source_of(), brightness)
    assert (report.kept, report.written) == (COUNT - 2, 2)
    assert_is(TileCache(path)[2], 2)


def test_a_finished_cache_is_left_alone(path: Path) -> None:
    build_cache(path, source_of(), brightness)
    before = path.stat().st_mtime_ns
    report = build_cache(path, source_of(make_all_but_two), brightness)
    assert (report.kept, report.written) == (COUNT, 0)
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("source", "teacher"),
    [(source_of(key="seed 2"), brightness), (source_of(count=5), brightness), (source_of(), None)],
)
def test_a_cache_of_other_tiles_is_not_mixed_in(path: Path, source: cache_tiles.MadeTiles, teacher: object) -> None:
    build_cache(path, source_of(), brightness)
    with pytest.raises(CacheError, match="holds other tiles"):
        build_cache(path, source, teacher)


@pytest.mark.parametrize("workers", [1, 2])
def test_tiles_that_cannot_be_made_are_left_out_and_told(path: Path, workers: int) -> None:
    report = build_cache(path, source_of(make_all_but_two), brightness, workers=workers)
    assert {failure.name for failure in report.failures} == {"tile 0", "tile 4"}
    assert any("file_4.tif: is truncated" in failure.message for failure in report.failures)
    cache = TileCache(path)
    assert cache.names == ["sim_0001", "sim_0002", "sim_0003", "sim_0005", "sim_0006"]
    assert_is(cache[3], 5)
    again = build_cache(path, source_of(make_all_but_two), brightness)
    assert {failure.name for failure in again.failures} == {"tile 0", "tile 4"}


def make_nothing(index: int) -> cache_tiles.LabelledTile:
    return make_all_but_two(0)


def make_two_sizes(index: int) -> cache_tiles.LabelledTile:
    return make_tile(index, size=SIZE if index < 4 else SIZE + 1)


def test_when_no_tile_can_be_made(path: Path) -> None:
    with pytest.raises(CacheError, match=r"none of 7 tiles could be made.*file_0\.tif"):
        build_cache(path, source_of(make_nothing))
    assert list(path.parent.iterdir()) == []


def test_a_tile_of_another_size_is_told(path: Path) -> None:
    report = build_cache(path, source_of(make_two_sizes), brightness)
    assert len(report.failures) == 3
    assert "13 x 13 pixels, the cache 12 x 12" in report.failures[0].message
    assert "pad_to" in report.failures[0].message


def spoil(path: Path, at: int, value: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(value)


def test_damage_is_found_and_named(cache: TileCache) -> None:
    offsets, _ = CacheFile(cache.path).spec.offsets()
    spoil(cache.path, offsets["radiance"] + 5 * 72 * SIZE * SIZE * 4 + 100, b"\x12\x34")
    with pytest.raises(CacheError, match=r"sim_0005.*does not match its checksum"):
        TileCache(cache.path).check()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: os.truncate(path, path.stat().st_size - 1), "truncated"),
        (lambda path: os.truncate(path, 100), "header is damaged"),
        (lambda path: spoil(path, 0, b"NOTACACH"), "not a FLAME tile cache"),
        (lambda path: spoil(path, 20, b"\xff\xff"), "header is damaged"),
        (lambda path: path.unlink(), "no such cache; build it first"),
    ],
)
def test_files_that_are_no_whole_cache(cache: TileCache, damage, problem: str) -> None:
    damage(cache.path)
    with pytest.raises(CacheError, match=problem) as caught:
        TileCache(cache.path)
    assert "train.cache" in str(caught.value)


def test_a_full_disk_is_found_before_the_work(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(CacheError, match=r"cannot reserve .* GB"):
        build_cache(path, source_of(), brightness)
    assert list(path.parent.iterdir()) == []


@pytest.fixture
def dataset_root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    tiles = [make_tile(index, 24) for index in (1, 2)]
    for tile in tiles:
        starcop.write_tile(tile, root / tile.name)
    starcop.write_index(root, "train", [starcop.TileRecord.of(tile, "train") for tile in tiles])
    return root


def test_a_starcop_folder_with_the_papers_teacher(dataset_root: Path, path: Path) -> None:
    source = DatasetSource(starcop.read_dataset(dataset_root, pad_to=32))
    build_cache(path, source, workers=2)
    cache = TileCache(path)
    assert cache.shape == (32, 32)
    assert not cache[0].valid[:, 24:].any()
    expected = mag1c_sas_teacher(source.tile(1).scene)
    np.testing.assert_array_equal(cache[1].teacher_ppm_m, expected)
    assert expected.max() > 0
    assert (expected[~cache[1].valid] == 0).all()


def test_a_data_set_may_move_between_runs(dataset_root: Path, path: Path) -> None:
    build_cache(path, DatasetSource(starcop.read_dataset(dataset_root)), None)
    moved = dataset_root.rename(dataset_root.with_name("moved"))
    assert build_cache(path, DatasetSource(starcop.read_dataset(moved)), None).kept == 2
    with pytest.raises(CacheError, match="other tiles"):
        build_cache(path, DatasetSource(starcop.read_dataset(moved, pad_to=64)), None)


def test_real_tiles_have_no_enhancement_layer(path: Path) -> None:
    build_cache(path, source_of(partial(_real, rgb=False)), None)
    tile = TileCache(path)[0]
    assert tile.enhancement_ppm_m is None
    assert tile.teacher_ppm_m is None
    assert tile.rgb is None
    assert TileCache(path).new_batch(2).enhancement_ppm_m is None


def _real(index: int, rgb: bool) -> cache_tiles.LabelledTile:
    tile = make_tile(index)
    return replace(tile, scene=replace(tile.scene, rgb=tile.scene.rgb if rgb else None), enhancement_ppm_m=None)


def test_the_header_has_room_for_every_sensor() -> None:
    widest = max((entry.bands for entry in SENSORS.values()), key=len)
    assert len(CacheSpec(1, 1, 1, widest, ("radiance",), "x" * 200).to_json()) < HEADER_BYTES / 2


def test_no_torch_is_needed() -> None:
    code = "import sys, flame.training.cache, flame.training.splits; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_damage_is_found_when_the_tile_is_read(cache: TileCache) -> None:
    offsets, _ = CacheFile(cache.path).spec.offsets()
    spoil(cache.path, offsets["radiance"] + 5 * 72 * SIZE * SIZE * 4 + 100, b"\x12\x34")
    damaged = TileCache(cache.path)
    assert damaged[4].name == "sim_0004"
    with pytest.raises(CacheError, match=r"sim_0005.*does not match its checksum"):
        damaged[5]
    with pytest.raises(CacheError, match=r"sim_0005.*does not match its checksum"):
        damaged.read_into([4, 5], damaged.new_batch(2, crop=(4, 4)))


def test_every_byte_of_the_header_is_guarded(cache: TileCache) -> None:
    content = cache.path.read_bytes()
    used = 20 + int.from_bytes(content[8:16], "little")
    for at in range(0, used, 7):
        cache.path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CacheError):
            TileCache(cache.path)


def test_a_tile_lost_by_damage_to_its_mark_is_missed(cache: TileCache) -> None:
    offsets, _ = CacheFile(cache.path).spec.offsets()
    spoil(cache.path, offsets["state"] + 3, bytes([State.FAILED]))
    with pytest.raises(CacheError, match="tile 3 is marked as missing"):
        TileCache(cache.path)


def test_a_link_laid_in_the_way_of_a_build_is_not_written_through(path: Path) -> None:
    """Not even one that leads to a cache of the same tiles, half built."""
    build_cache(path, source_of(), brightness)
    secret = path.rename(path.with_name("secret"))
    file = CacheFile(secret, writable=True)
    file.arrays["state"][3] = State.EMPTY
    file.flush()
    before = secret.read_bytes()
    path.with_name(path.name + ".partial").symlink_to(secret)
    path.with_name(path.name + ".0123.partial").symlink_to(secret)
    assert build_cache(path, source_of(), brightness).kept == 0
    assert secret.read_bytes() == before
    assert not path.is_symlink()


def test_nobody_can_foresee_what_a_build_writes_to(path: Path) -> None:
    assert partial_path(path) != partial_path(path)
