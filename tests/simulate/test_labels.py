"""Labels: what can be seen is outlined, what cannot is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from flame.errors import FlameError
from flame.simulate.labels import LabelSettings, average, draw_label, labels_at_level
from flame.simulate.plumes import PlumeSettings, plume_column
from flame.tile import PlumeSource

SHAPE = (96, 96)
SEEN = np.ones(SHAPE, np.bool_)
SETTINGS = LabelSettings(
    edge_snr=4.0, faintest_ppm_m=100.0, core_snr=6.0, gap_px=2, outline_sigma_px=1.0, margin_px=0.0, margin_share=0.0
)
"""Fixed here, so that the laws below do not depend on what the defaults are tuned to."""


def _noise(level_ppm_m: float) -> np.ndarray:
    return np.full(SHAPE, level_ppm_m, np.float32)


@pytest.fixture(scope="module")
def plume() -> np.ndarray:
    settings = PlumeSettings(burst_share=0.0)
    source = PlumeSource(48.0, 12.0, 200.0, 3.0, 90.0)
    return plume_column(np.random.default_rng(11), SHAPE, 5.0, source, settings)


def test_snr_is_that_of_the_weighted_average() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(50.0, 500.0, SHAPE).astype(np.float32)
    flat = average(np.full(SHAPE, 100.0, np.float32), noise, SEEN, 2.0).snr
    maps = []
    for _ in range(200):
        weight = 1.0 / np.square(noise)
        draw = noise * rng.standard_normal(SHAPE)
        maps.append(
            ndimage.gaussian_filter(draw * weight, 2.0, mode="constant")
            / ndimage.gaussian_filter(weight, 2.0, mode="constant")
        )
    inner = np.s_[10:-10, 10:-10]
    measured = 100.0 / np.std(maps, axis=0)[inner]
    assert np.median(flat[inner] / measured) == pytest.approx(1.0, abs=0.03)


def test_an_invisible_plume_has_no_label(plume: np.ndarray) -> None:
    assert not draw_label(plume, _noise(1e5), SEEN, SETTINGS).any()
    assert not draw_label(np.zeros(SHAPE, np.float32), _noise(100.0), SEEN, SETTINGS).any()


def test_label_shrinks_as_noise_grows(plume: np.ndarray) -> None:
    sizes = [int(draw_label(plume, _noise(level), SEEN, SETTINGS).sum()) for level in (200.0, 400.0, 700.0, 1200.0)]
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3]
    assert sizes[2] > 0


def test_no_outline_below_the_faintest_enhancement(plume: np.ndarray) -> None:
    settings = replace(SETTINGS, outline_sigma_px=0.0, gap_px=0)
    label = draw_label(plume, _noise(1.0), SEEN, settings)
    seen = average(plume, _noise(1.0), SEEN, settings.eye_sigma_px).mean_ppm_m
    assert label.any()
    edge = label & ~ndimage.binary_erosion(label)
    assert seen[edge].min() >= settings.faintest_ppm_m


def test_all_parts_of_a_noticed_plume_are_outlined_and_strangers_are_not() -> None:
    enhancement = np.zeros(SHAPE, np.float32)
    enhancement[20:30, 10:80] = 500.0
    enhancement[20:30, 10:20] = 3000.0
    enhancement[20:30, 60:80] = 800.0
    enhancement[60:70, 60:80] = 800.0
    label = draw_label(enhancement, _noise(600.0), SEEN, SETTINGS)
    assert label[25, 15]
    assert label[25, 70]
    assert not label[25, 40]
    assert not label[50:].any()


def test_label_covers_the_bright_plume_and_little_else(plume: np.ndarray) -> None:
    label = draw_label(plume, _noise(150.0), SEEN, SETTINGS)
    assert label[plume > 1000.0].mean() > 0.95
    assert plume[label].sum() > 0.6 * plume.sum()
    assert np.median(plume[label]) > 150.0
    assert plume[~label].max() < 1000.0


def test_label_is_smooth_without_holes_or_specks(plume: np.ndarray) -> None:
    label = draw_label(plume, _noise(200.0), SEEN, SETTINGS)
    pieces, count = ndimage.label(label, np.ones((3, 3)))
    assert count >= 1
    assert np.bincount(pieces.ravel())[1:].min() >= SETTINGS.least_pixels
    np.testing.assert_array_equal(ndimage.binary_fill_holes(label), label)
    assert ndimage.binary_opening(label, np.ones((2, 2))).sum() > 0.95 * label.sum()


def test_a_faint_piece_is_dropped_and_a_near_gap_closed() -> None:
    enhancement = np.zeros(SHAPE, np.float32)
    enhancement[40:48, 20:40] = 2000.0
    enhancement[40:48, 43:60] = 2000.0
    enhancement[80:84, 80:84] = 220.0
    label = draw_label(enhancement, _noise(300.0), SEEN, SETTINGS)
    assert ndimage.label(label)[1] == 1
    assert label[44, 41]
    assert not label[76:, 76:].any()


def test_label_stays_inside_valid_pixels_and_bridges_dark_ones() -> None:
    enhancement = np.zeros(SHAPE, np.float32)
    enhancement[30:60, 30:60] = 1500.0
    noise = _noise(200.0)
    noise[44:46, 44:46] = np.inf
    valid = SEEN.copy()
    valid[:, :40] = False
    label = draw_label(enhancement, noise, valid, SETTINGS)
    assert not label[~valid].any()
    assert label[45, 45]
    assert label[35:55, 42:56].all()


def test_plume_at_the_tile_edge_is_outlined_to_the_edge() -> None:
    enhancement = np.zeros(SHAPE, np.float32)
    enhancement[30:50, 60:] = 1500.0
    assert draw_label(enhancement, _noise(200.0), SEEN, SETTINGS)[35:45, 62:].all()


def test_a_sharper_eye_sees_more(plume: np.ndarray) -> None:
    keen = replace(SETTINGS, edge_snr=2.0, core_snr=3.0)
    usual, more = (draw_label(plume, _noise(400.0), SEEN, s) for s in (SETTINGS, keen))
    assert usual.sum() < more.sum()
    assert (usual & ~more).sum() <= 0.02 * usual.sum()


@pytest.mark.parametrize("share", [0.25, 4.0])
def test_outlines_follow_the_noise_of_the_scene(plume: np.ndarray, share: float) -> None:
    usual = draw_label(plume, _noise(100.0), SEEN)
    assert usual.any()
    np.testing.assert_array_equal(draw_label(share * plume, _noise(share * 100.0), SEEN), usual)


def test_a_margin_takes_in_what_lies_around_the_visible_plume(plume: np.ndarray) -> None:
    tight = draw_label(plume, _noise(200.0), SEEN, replace(SETTINGS, margin_px=0.0, margin_share=0.0))
    fixed = draw_label(plume, _noise(200.0), SEEN, replace(SETTINGS, margin_px=2.0, margin_share=0.0))
    assert not (tight & ~fixed).any()
    distance = ndimage.distance_transform_edt(~tight)
    assert (distance[fixed] <= 2.0).mean() > 0.99
    assert fixed.sum() > tight.sum()
    shares = [draw_label(plume, _noise(200.0), SEEN, replace(SETTINGS, margin_share=s)).sum() for s in (0.0, 0.1, 0.3)]
    assert shares == sorted(shares)
    assert shares[0] < shares[2]


def test_labels_at_a_level_depend_on_the_truth_alone(plume: np.ndarray) -> None:
    low, high = (labels_at_level(plume, level) for level in (250.0, 1000.0))
    assert not (high & ~low).any()
    np.testing.assert_array_equal(labels_at_level(plume, 500.0, sigma_px=0.0), plume > 500.0)
    half = SEEN.copy()
    half[:, 48:] = False
    np.testing.assert_array_equal(labels_at_level(plume, 250.0, half), low & half)
    with pytest.raises(FlameError, match="above 0"):
        labels_at_level(plume, 0.0)
