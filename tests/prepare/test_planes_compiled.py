"""The planes: the compiled kernels equal NumPy in every plane, on every instruction set, and rings copy nothing."""

import tracemalloc

import numpy as np
import pytest
from prepared_tiles import spoiled

from filters.simulated_tile import simulated_tile
from flame.filters.noise_aware import estimate_background
from flame.kernels import SWITCH, KernelsError, load_kernels
from flame.prepare.level import find_floor
from flame.prepare.planes import FIELD_NAMES, GRID_NM, PlanePreparer, PlaneSettings, compiled, preparer
from flame.prepare.quality import Quality
from flame.prepare.settings import PixelSettings
from kernel_sets import kernels, wide_kernels  # noqa: F401

needs_kernels = pytest.mark.skipif(load_kernels() is None, reason="built without a C compiler")


def learned(count, seed=0):
    """Functions of wavelength that are smooth, as learned ones are."""
    rng = np.random.default_rng(seed)
    waves = np.cos(np.outer(rng.uniform(1, 30, count), np.linspace(0, 1, GRID_NM.size)) + rng.uniform(0, 6, (count, 1)))
    return (0.5 * waves).astype(np.float32)


def tile_with_holes(rows, cols, sensor_name="aviris-ng", seed=40):
    """A tile with every kind of bad pixel, holes full of NaN, a row without pixels and a dead band."""
    tile = simulated_tile(seed=seed, size=max(rows, cols), sensor_name=sensor_name)
    radiance = spoiled(np.ascontiguousarray(tile.radiance[:, :rows, :cols]))
    valid = np.random.default_rng(seed).random((rows, cols)) > 0.1
    valid[rows // 2] = False
    radiance[3] = 0.5
    radiance[:, ~valid] = np.nan
    return radiance, tile.bands, valid


def inputs_of(tile, count=16, shape=None, first=0, **how):
    radiance, bands, valid = tile
    settings = how.pop("settings", PlaneSettings())
    return PlanePreparer(settings, learned(count), bands, shape or valid.shape, **how).prepare(
        radiance, valid, first=first
    )


def assert_alike(fast, plain, atol):
    np.testing.assert_array_equal(fast.quality, plain.quality)
    np.testing.assert_array_equal(fast.usable, plain.usable)
    assert fast.inputs.keys() == plain.inputs.keys()
    for name, expected in plain.inputs.items():
        assert fast.inputs[name].shape == expected.shape
        np.testing.assert_allclose(fast.inputs[name], expected, rtol=1e-4, atol=atol, err_msg=name)


@needs_kernels
@pytest.mark.parametrize(
    ("shape", "name", "count", "settings"),
    [
        ((40, 64), "aviris-ng", 16, PlaneSettings()),
        ((37, 51), "emit", 7, PlaneSettings(anchors=2, clutter_px=0.5)),
        ((90, 17), "emit", 0, PlaneSettings(anchors=5, clutter_px=12.0, clutter_clip=2.0, reference_ppm_m=300.0)),
    ],
)
def test_kernels_equal_numpy_in_every_plane(kernels, shape, name, count, settings, monkeypatch):  # noqa: F811
    """Against one background, so that nothing but the planes is compared."""
    tile = tile_with_holes(*shape, name)
    fast = PlanePreparer(settings, learned(count), tile[1], shape, kernels=kernels, threads=2)
    background = []

    def once(radiance, bands, valid, *given, **how):
        background.append(background[0] if background else estimate_background(radiance, bands, valid, *given, **how))
        return background[0]

    monkeypatch.setattr(compiled, "estimate_background", once)
    monkeypatch.setattr(preparer, "estimate_background", once)
    made = fast.prepare(tile[0], tile[2])
    monkeypatch.setenv(SWITCH, "none")
    plain = inputs_of(tile, count, settings=settings, kernels=None)
    assert made.inputs["planes"].shape == (1, count + len(FIELD_NAMES) + 9, *shape)
    assert len(background) == 2
    assert 0.5 < plain.usable.mean() < 0.95
    assert plain.inputs["planes"][0, count + 4][~plain.usable].any()  # holes hear of their neighbours
    assert_alike(made, plain, atol=1e-3)


@needs_kernels
def test_statistics_and_planes_equal_numpy_as_a_whole(monkeypatch):
    tile = tile_with_holes(96, 80)
    fast = inputs_of(tile)
    monkeypatch.setenv(SWITCH, "none")
    assert_alike(fast, inputs_of(tile), atol=0.02)


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("first", [0, 11])
def test_threads_and_rings_change_nothing(threads, first):
    radiance, bands, valid = tile_with_holes(48, 45)
    whole = inputs_of((radiance, bands, valid), threads=1)
    more = np.concatenate([radiance, np.full((len(bands), 3, 45), np.nan, dtype=np.float32)], axis=1)
    for ring in (radiance, more):  # as long as the tile, and longer
        turned = np.roll(ring, first, axis=1)
        made = inputs_of((turned, bands, valid), first=first, threads=threads)
        np.testing.assert_array_equal(made.quality, whole.quality)
        for name, expected in whole.inputs.items():
            np.testing.assert_array_equal(made.inputs[name], expected, err_msg=name)


def test_a_ring_without_kernels_is_the_tile_itself():
    radiance, bands, valid = tile_with_holes(48, 45)
    whole, turned = (
        inputs_of((np.roll(radiance, first, axis=1), bands, valid), first=first, kernels=None) for first in (0, 7)
    )
    assert_alike(turned, whole, atol=1e-6)


@needs_kernels
def test_what_lies_beyond_a_smaller_tile_is_not_usable_whatever_stood_there():
    large, small = tile_with_holes(64, 60), tile_with_holes(40, 33)
    maker = PlanePreparer(PlaneSettings(), learned(16), large[1], (64, 60))
    maker.prepare(large[0], large[2])
    made = maker.prepare(small[0], small[2])
    assert made.usable.shape == (40, 33)
    assert_alike(made, inputs_of(small, shape=(64, 60), kernels=None), atol=1e-3)
    back = maker.prepare(large[0], large[2])
    assert_alike(back, inputs_of(large), atol=0.0)


@needs_kernels
@pytest.mark.parametrize("way", ["auto", None])
def test_a_smaller_tile_keeps_its_size_whatever_stood_there(way):
    large, small = tile_with_holes(64, 60), tile_with_holes(40, 33)
    maker = PlanePreparer(PlaneSettings(), learned(16), large[1], (64, 60), kernels=way)
    maker.prepare(large[0], large[2])
    made, alone = maker.prepare(small[0], small[2]), inputs_of(small, kernels=way)
    for name, array in made.inputs.items():
        np.testing.assert_array_equal(array, alone.inputs[name], err_msg=name)


@pytest.mark.parametrize("way", ["auto", None])
@pytest.mark.parametrize("kind", ["all invalid", "constant", "all NaN", "dark"])
def test_tiles_without_a_background_have_no_planes(kind, way):
    tile = simulated_tile(seed=41, size=32)
    radiance, valid = tile.radiance.copy(), tile.valid.copy()
    if kind == "all invalid":
        valid[:] = False
    else:
        radiance[:] = {"constant": 3.0, "all NaN": np.nan, "dark": 0.0}[kind]
    made = inputs_of((radiance, tile.bands, valid), kernels=way)
    assert made.inputs is None
    expected = {"all invalid": Quality.INVALID, "constant": 0, "all NaN": Quality.NOT_FINITE, "dark": Quality.NO_SIGNAL}
    assert ((made.quality & expected[kind]) == expected[kind]).all()


def bytes_of_arrays():
    """What NumPy holds, without what type checks and interpreters keep for themselves."""
    arrays = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)


@needs_kernels
def test_no_memory_is_taken_from_tile_to_tile():
    tiles = [tile_with_holes(64, 60, seed=seed) for seed in (42, 43)]
    maker = PlanePreparer(PlaneSettings(), learned(16), tiles[0][1], (64, 60))
    places = {name: array.ctypes.data for name, array in maker.prepare(tiles[0][0], tiles[0][2]).inputs.items()}
    held = []
    tracemalloc.start()
    try:
        for number in range(5):
            radiance, _, valid = tiles[number % 2]
            inputs = maker.prepare(radiance, valid).inputs
            assert {name: array.ctypes.data for name, array in inputs.items()} == places
            held.append(bytes_of_arrays())
    finally:
        tracemalloc.stop()
    assert max(held[2:]) - held[1] < 64 * 60  # not one byte a pixel


@needs_kernels
@pytest.mark.parametrize("bit", [0, 5, 30, 31])
@pytest.mark.parametrize("place", range(4))
def test_a_table_damaged_in_memory_is_refused_and_not_followed(bit, place):
    radiance, bands, valid = tile_with_holes(64, 60)
    maker = PlanePreparer(PlaneSettings(), learned(16), bands, (64, 60))
    reach = maker._compiled._reach
    reach.view(np.uint32)[place] ^= np.uint32(1 << bit)
    with pytest.raises(KernelsError, match="damaged in memory"):
        maker.prepare(radiance, valid)
    reach.view(np.uint32)[place] ^= np.uint32(1 << bit)
    assert maker.prepare(radiance, valid).inputs is not None


@pytest.mark.parametrize("shape", [(40, 64), (37, 51)])
def test_the_pass_over_the_cube_finds_the_floor(kernels, shape):  # noqa: F811
    radiance, bands, valid = tile_with_holes(*shape)
    pixels = PixelSettings()
    maker = compiled.CompiledPlanes(kernels, PlaneSettings(), np.zeros((0, len(bands))), bands, shape, 2)
    for first in (0, 7):
        ring = np.roll(radiance, first, axis=1)
        seen = maker.find_range(ring, shape[0], first, pixels.level_step)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(seen.lowest, radiance.min(axis=0))
            np.testing.assert_array_equal(seen.highest, radiance.max(axis=0))
        floor = seen.floor(len(bands), valid, pixels)
        assert floor == pytest.approx(find_floor(ring, valid, pixels, first)[0], rel=1e-6)
    assert seen.floor(len(bands), np.zeros_like(valid), pixels) is None
