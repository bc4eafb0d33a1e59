"""The preparation: what each step is, and the compiled kernels as its equal on every instruction set."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prepared_tiles import bands_of, random_tile, spoiled

from flame.filters import filter_named
from flame.kernels import load_kernels
from flame.physics import ABSORPTION_UNIT_PPM_M, unit_absorption
from flame.prepare import (
    FIELDS,
    BackgroundSettings,
    Field,
    PixelSettings,
    PrepareSettings,
    Quality,
    SettingsError,
    TilePreparer,
    inverse_root,
    tile_background,
)
from flame.prepare.fill import fill_unusable
from flame.records import from_entries
from kernel_sets import kernels, wide_kernels  # noqa: F401

EVERYTHING = ("whitened", "target", "unwhitening", "background_mean", "whitening", "pixel_fields", "rgb")
SETTINGS = PrepareSettings(background=BackgroundSettings(samples=300, passes=2), pixel_fields=tuple(FIELDS), rgb="tile")

needs_kernels = pytest.mark.skipif(load_kernels() is None, reason="built without a C compiler")


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 40), cols=st.integers(1, 40), seed=st.integers(0, 99), share=st.floats(0, 0.95))
def test_holes_are_filled_with_the_mean_of_their_block_and_never_read(rows, cols, seed, share):
    rng = np.random.default_rng(seed)
    field = rng.normal(size=(3, rows, cols)).astype(np.float32)
    usable = rng.random((rows, cols)) >= share
    filled, dirty = field.copy(), field.copy()
    dirty[:, ~usable] = np.nan
    fill_unusable(filled, usable, 16)
    with ThreadPoolExecutor(2) as pool:
        fill_unusable(dirty, usable, 16, pool.map)
    np.testing.assert_array_equal(dirty, filled)
    np.testing.assert_array_equal(filled[:, usable], field[:, usable])
    for row, col in np.argwhere(~usable)[:5]:
        here = np.zeros_like(usable)
        here[row // 16 * 16 : row // 16 * 16 + 16, col // 16 * 16 : col // 16 * 16 + 16] = True
        near = usable & here if (usable & here).any() else usable
        expected = field[:, near].mean(axis=1) if near.any() else np.zeros(3)
        np.testing.assert_allclose(filled[:, row, col], expected, atol=1e-5)


def test_holes_of_blocks_are_those_of_the_image():
    rng = np.random.default_rng(8)
    image = rng.normal(size=(3, 32, 24)).astype(np.float32)
    usable = rng.random((32, 24)) < 0.7
    blocks = np.ascontiguousarray(image.reshape(3, 4, 8, 24).swapaxes(0, 1))
    fill_unusable(image, usable, 16)
    fill_unusable(blocks.swapaxes(0, 1), usable, 16)
    np.testing.assert_array_equal(blocks.swapaxes(0, 1).reshape(image.shape), image)


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_whitened_background_is_white(passes):
    radiance, _, _ = random_tile(9, 100, 100, holes=0.0)
    log, usable = np.log(radiance)[None], np.ones((100, 100), bool)
    spectrum = unit_absorption(bands_of(9))
    mean, whitening = tile_background(log, usable, spectrum, BackgroundSettings(samples=10_000, passes=passes))
    white = whitening @ (log[0].reshape(9, -1) - mean[:, None])
    np.testing.assert_allclose(np.cov(white), np.eye(9), atol=0.05 if passes == 1 else 0.7)
    np.testing.assert_allclose(whitening, whitening.T, atol=1e-9)


def test_the_first_background_is_the_sample_covariances_inverse_root():
    rng = np.random.default_rng(4)
    log = np.einsum("ij,jrc->irc", rng.normal(size=(4, 4)), rng.normal(size=(4, 30, 20))).astype(np.float32)
    usable = rng.random((30, 20)) < 0.7
    mean, whitening = tile_background(log[None], usable, np.ones(4), BackgroundSettings(samples=4096, passes=1))
    seen = log[:, usable].astype(float)
    np.testing.assert_allclose(mean, seen.mean(axis=1), atol=1e-9)
    noise = np.sort(np.linalg.eigvalsh(np.cov(seen, bias=True)))[1] * 4 / usable.sum() + 1e-7
    raised = np.cov(seen, bias=True) + noise * np.eye(4)
    np.testing.assert_allclose(whitening @ raised @ whitening, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(inverse_root(np.diag([4.0, 9.0]), np.inf, 0.0), np.diag([0.5, 1 / 3]))


def _prepared(names, radiance, valid, rgb, first=0, chosen=SETTINGS, **how):
    shape = how.pop("shape", valid.shape)
    preparer = TilePreparer(chosen, names, bands_of(len(radiance)), shape, **how)
    return preparer.prepare(radiance, valid, rgb, first, always=True)


def _image(spectra):
    return spectra.swapaxes(0, 1).reshape(spectra.shape[1], -1, spectra.shape[3])


@needs_kernels
@pytest.mark.parametrize(
    ("bands", "shape"),
    [(72, (32, 32)), (72, (40, 37)), (72, (64, 96)), (9, (5, 100)), (9, (33, 7)), (4, (33, 1)), (5, (17, 3))],
)
@pytest.mark.parametrize("spectra", ["whitened", "log_radiance"])
def test_kernels_equal_numpy_on_odd_sizes_with_bad_pixels(kernels, bands, shape, spectra):  # noqa: F811
    radiance, valid, rgb = random_tile(bands, *shape, seed=bands)
    radiance = spoiled(radiance)
    names = (spectra, *EVERYTHING[1:])
    plain, fast = (_prepared(names, radiance, valid, rgb, kernels=k, threads=2) for k in (None, kernels))
    np.testing.assert_array_equal(fast.quality, plain.quality)
    np.testing.assert_array_equal(fast.usable, plain.usable)
    for name in names:
        scale = max(1.0, float(np.abs(plain.inputs[name]).max()))
        np.testing.assert_allclose(fast.inputs[name], plain.inputs[name], atol=2e-4 * scale, err_msg=name)


@needs_kernels
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("block_rows", [1, 8, 32])
@pytest.mark.parametrize("first", [0, 5])
def test_blocks_rings_and_threads_change_nothing(threads, block_rows, first):
    radiance, valid, rgb = random_tile(9, 32, 40)
    whole = _prepared(EVERYTHING, radiance, valid, rgb)
    how = {"threads": threads, "block_rows": block_rows}
    ring = _prepared(EVERYTHING, np.roll(radiance, first, 1), valid, rgb, first, **how)
    assert ring.inputs["whitened"].shape == (32 // block_rows, 9, block_rows, 40)
    np.testing.assert_array_equal(_image(ring.inputs["whitened"]), whole.inputs["whitened"][0])
    for name in EVERYTHING[1:]:
        np.testing.assert_array_equal(ring.inputs[name], whole.inputs[name], err_msg=name)


@pytest.mark.parametrize("way", ["auto", None])
def test_fields_are_what_they_say(way):
    """From the definition, pixel by pixel, in double precision."""
    radiance, valid, rgb = random_tile(9, 40, 37, holes=0.0)
    tile = _prepared(EVERYTHING, radiance, valid, rgb, kernels=way)
    spectrum = unit_absorption(bands_of(9))
    log = np.log(radiance.astype(np.float64))
    mean, whitening = (tile.inputs[name][0].astype(np.float64) for name in ("background_mean", "whitening"))
    white = np.einsum("ij,jrc->irc", whitening, log - mean[:, None, None])
    target = whitening @ spectrum
    np.testing.assert_allclose(tile.inputs["whitened"][0], white, atol=2e-4)
    np.testing.assert_allclose(tile.inputs["target"][0], target, rtol=1e-5)
    np.testing.assert_allclose(tile.inputs["unwhitening"][0] @ whitening, np.eye(9), atol=1e-4)
    response = np.einsum("b,brc->rc", target / np.linalg.norm(target), white)
    power = np.square(white).mean(axis=0)
    noise = ABSORPTION_UNIT_PPM_M / np.linalg.norm(target) / 500.0
    steps = np.pad(np.square(np.diff(white[::4], axis=2)).mean(axis=0), ((0, 0), (1, 1)), mode="edge")
    local = _window(0.25 * (steps[:, 1:] + steps[:, :-1]), 1)
    around = _window(np.square(np.clip(response, -4, 4)), 7)
    bright = log.mean(axis=0)
    expected = {
        "matched_filter": np.arcsinh(response),
        "brightness": bright - np.sort(bright, axis=None)[(bright.size - 1) // 2],
        "anomaly": 0.5 * np.log(power + 1e-6),
        "coherence": response / np.sqrt(power + 1e-6),
        "noise": 0.5 * np.log(local + 1e-6),
        "enhancement": np.arcsinh(response * noise),
        "clutter": 0.5 * np.log(around + 1e-6) + np.log(noise),
        "mag1c": filter_named("mag1c").score(radiance, bands_of(9), valid) / 500.0,
        "mag1c_sas": filter_named("mag1c-sas").score(radiance, bands_of(9), valid) / 500.0,
    }
    assert expected.keys() == FIELDS.keys()
    for name, found in zip(FIELDS, tile.inputs["pixel_fields"][0], strict=True):
        np.testing.assert_allclose(found, expected[name], atol=2e-4, err_msg=name)


def _window(image, reach):
    padded = np.pad(image, reach, mode="edge")
    side = 2 * reach + 1
    return np.lib.stride_tricks.sliding_window_view(padded, (side, side)).mean(axis=(2, 3))


def test_a_field_without_kernel_is_one_function_and_one_line(monkeypatch):
    """NumPy is enough, beside fields that have kernels, and the tile's radiance is at hand."""

    def redness(view):
        return np.where(view.usable, view.radiance[-1] / np.maximum(view.radiance[0], 1e-6), 1).astype(np.float32)

    monkeypatch.setitem(FIELDS, "redness", Field("redness", redness))
    radiance, valid, _ = random_tile(9, 30, 33)
    chosen = PrepareSettings(pixel_fields=("brightness", "redness", "noise"))
    made = _prepared(("whitened", "pixel_fields"), np.roll(radiance, 4, 1), valid, None, 4, chosen, shape=(32, 40))
    assert made.inputs["pixel_fields"].shape == (1, 3, 32, 40)
    found = made.inputs["pixel_fields"][0, 1, :30, :33]
    np.testing.assert_allclose(found[valid], (radiance[-1] / radiance[0])[valid], rtol=1e-6)


def test_twice_the_noise_is_twice_the_enhancement_of_a_standard_deviation():
    rng = np.random.default_rng(0)
    fields = {}
    for spread in (0.002, 0.004):
        radiance = np.exp(spread * rng.standard_normal((72, 64, 64), dtype=np.float32))
        ones, rgb = np.ones((64, 64), bool), np.ones((3, 64, 64), np.float32)
        made = _prepared(EVERYTHING, radiance, ones, rgb, chosen=replace(SETTINGS, background=BackgroundSettings()))
        fields[spread] = dict(zip(FIELDS, made.inputs["pixel_fields"][0], strict=True))
    quiet, loud = (np.exp(fields[spread]["clutter"]).mean() for spread in (0.002, 0.004))
    assert loud / quiet == pytest.approx(2.0, rel=0.05)
    spread = [np.sinh(f["enhancement"]).std() / np.sinh(f["matched_filter"]).std() for f in fields.values()]
    assert spread[1] / spread[0] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("way", ["auto", None])
@pytest.mark.parametrize("gain", [0.1, 1.0, 10.0])
def test_dark_bands_are_floored_by_the_tiles_own_level(gain, way):
    rng = np.random.default_rng(6)
    radiance = (gain * rng.uniform(0.0, 1.0, size=(4, 32, 32)) ** 6).astype(np.float32)
    radiance[:, 3, 5:9] = [[0.0], [-0.1], [0.2 * gain], [0.3 * gain]]
    valid = rng.random((32, 32)) < 0.9
    made = _prepared(("log_radiance",), radiance, valid, None, kernels=way)
    on_grid = (made.usable)[::8, ::8]
    level = np.sort(radiance[:, ::8, ::8].mean(axis=0)[on_grid])[(on_grid.sum() - 1) // 2]
    expected = np.log(np.maximum(radiance, 0.005 * level))
    np.testing.assert_allclose(made.inputs["log_radiance"][0][:, made.usable], expected[:, made.usable], atol=2e-5)
    dark = (made.quality & Quality.DARK) != 0
    assert 0 < dark.sum() < dark.size


@pytest.mark.parametrize("way", ["auto", None])
def test_every_bad_pixel_is_flagged_and_unusable(way):
    radiance, valid, rgb = random_tile(4, 30, 29)
    for row, bad in enumerate([np.nan, np.inf, -np.inf, -9999.0, 1e6]):
        radiance[row % 4, 3 * row, ::2] = bad
    radiance[:, 29] = 0.0
    radiance[0, 25, 3] = 1e-30
    made = _prepared(("log_radiance",), radiance, valid, rgb, kernels=way)
    for row in range(5):
        assert not made.usable[3 * row, ::2].any()
    assert not made.usable[29].any()
    assert made.quality[25, 3] & Quality.DARK
    assert made.usable[25, 3] == valid[25, 3]
    assert {Quality(bit) for bit in (1, 2, 4, 8, 16)} <= {q for q in Quality if made.flags & q}


def test_too_few_usable_pixels_are_told():
    radiance, valid, rgb = random_tile(9, 32, 32)
    valid[:] = False
    valid[0, :17] = True
    preparer = TilePreparer(SETTINGS, EVERYTHING, bands_of(9), (32, 32))
    assert preparer.prepare(radiance, valid, rgb).inputs is None
    assert preparer.prepare(radiance, valid, rgb, always=True).inputs is not None
    valid[0, 17] = True
    assert preparer.prepare(radiance, valid, rgb).inputs is not None


def test_a_tile_can_be_prepared_into_memory_of_the_callers():
    radiance, valid, rgb = random_tile(9, 32, 32)
    preparer = TilePreparer(SETTINGS, EVERYTHING, bands_of(9), (32, 32))
    first = preparer.prepare(radiance, valid, rgb, spectra=preparer.new_spectra()).inputs["whitened"]
    kept = first.copy()
    preparer.prepare(radiance[:, ::-1].copy(), valid, rgb)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PixelSettings(floor_share=float("nan")), "floor_share must be a number from"),
        (lambda: PixelSettings(saturation_radiance=1e308), "saturation_radiance"),
        (lambda: from_entries(PixelSettings, {"level_step": True}), "level_step must be a whole number"),
        (lambda: from_entries(PixelSettings, {"fill_block": 2.5}), "fill_block must be a whole number"),
        (lambda: BackgroundSettings(passes=0), "passes"),
        (lambda: PrepareSettings(pixel_fields=("noise", "noise")), "twice"),
        (lambda: PrepareSettings(pixel_fields=("wind",)), "no pixel field 'wind'; known are matched_filter"),
        (lambda: from_entries(PrepareSettings, {"rgb": "odd"}), "rgb: expected one of fixed, tile, none, got 'odd'"),
        (lambda: from_entries(PrepareSettings, {"pixel_fields": [3]}), "pixel_fields: expected str, got 3"),
        (lambda: from_entries(PrepareSettings, {"background": {"depth": 1}}), "background: unknown entries depth"),
        (lambda: from_entries(PrepareSettings, [1]), "expected an object"),
        (lambda: TilePreparer(SETTINGS, ("whitened", "wind"), bands_of(9), (8, 8)), "must be among"),
        (lambda: TilePreparer(SETTINGS, ("whitened", "log_radiance"), bands_of(9), (8, 8)), "with one of"),
    ],
)
def test_settings_that_cannot_be_right_are_refused_by_name(make, message):
    with pytest.raises(SettingsError, match=message):
        make()
