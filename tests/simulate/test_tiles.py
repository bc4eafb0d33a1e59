"""A simulated tile is what its settings say: repeatable, physical, labelled, with its truth beside it."""

from dataclasses import replace

import numpy as np
import pytest

from flame.errors import FlameError
from flame.physics import transmittance, unit_absorption
from flame.simulate import PRESETS, Range, preset, simulate_tile, tile_generator
from flame.simulate.visibility import draw_labelled_plume, matched_filter, visible_noise

SIZE = 48


def settings(name="cluttered", plume=None, **instrument):
    chosen = preset(name, size=SIZE)
    if plume is not None:
        shares = (0.0, 1.0) if plume else (1.0,)
        chosen = replace(chosen, plume=replace(chosen.plume, source_shares=shares))
    return replace(chosen, instrument=replace(chosen.instrument, **instrument))


@pytest.fixture(scope="module")
def tiles():
    visible = replace(settings(plume=True), raise_limit=100.0)
    return [simulate_tile(tile_generator(5, index), visible, f"t{index}") for index in range(10)]


def test_the_same_seed_and_index_give_the_same_bytes():
    first, again = (simulate_tile(tile_generator(1, 7), settings(), "a") for _ in range(2))
    assert first.tile.scene.radiance.tobytes() == again.tile.scene.radiance.tobytes()
    assert first.tile.label.tobytes() == again.tile.label.tobytes()
    other = simulate_tile(tile_generator(1, 8), settings(), "b")
    assert other.tile.scene.radiance.tobytes() != first.tile.scene.radiance.tobytes()


@pytest.mark.parametrize("name", PRESETS)
def test_every_layer_is_finite_and_of_one_size(name):
    made = simulate_tile(tile_generator(2, 0), settings(name), "a")
    scene = made.tile.scene
    assert scene.radiance.shape == (72, SIZE, SIZE) == made.background_radiance.shape == made.noise_sigma.shape
    for layer in (scene.radiance, scene.rgb, made.background_radiance, made.noise_sigma, made.tile.enhancement_ppm_m):
        assert layer.dtype == np.float32
        assert np.isfinite(layer).all()
    assert (made.noise_sigma > 0).all()


def test_the_noise_is_the_noise_it_says(tiles):
    spread = []
    for made in tiles:
        scene = made.tile.scene
        calm = scene.valid & (made.tile.enhancement_ppm_m < 0.1)
        if calm.sum() > 200:
            spread.append(((scene.radiance - made.background_radiance) / made.noise_sigma)[:, calm].std())
    assert len(spread) > 4
    assert np.median(spread) == pytest.approx(1.0, abs=0.02)


def test_the_plume_takes_the_light_that_transmittance_says():
    quiet = settings(
        plume=True, noise_scale=Range(1e-4, 1e-4), psf_sigma_px=Range(0.05, 0.05), shift_nm=Range(0.0, 0.0),
        smile_nm=Range(0.0, 0.0), edge_chance=0.0, dead_column_chance=0.0, saturation_chance=0.0,
        band_offset=Range(0.0, 0.0),
    )  # fmt: skip
    strong = replace(quiet.plume, emission_median_kg_h=2000.0, margin=0.0, burst_share=0.0)
    quiet = replace(quiet, plume=strong, atmosphere=replace(quiet.atmosphere, path_radiance=Range(0.0, 0.0)))
    made = simulate_tile(tile_generator(5, 1), quiet, "a")
    row, col = np.unravel_index(np.argmax(made.tile.enhancement_ppm_m), (SIZE, SIZE))
    slant = made.tile.enhancement_ppm_m[row, col]
    assert slant > 500
    seen = (made.tile.scene.radiance / made.background_radiance)[:, row, col]
    np.testing.assert_allclose(seen, transmittance(np.array([float(slant)]), made.tile.scene.bands)[:, 0], atol=2e-3)


def test_labels_lie_on_plumes_and_valid_pixels(tiles):
    labelled = [made.tile for made in tiles if made.tile.label.any()]
    assert len(labelled) >= 6
    for tile in labelled:
        assert tile.scene.valid[tile.label].all()
        inside, outside = tile.enhancement_ppm_m[tile.label].mean(), tile.enhancement_ppm_m[~tile.label].mean()
        assert inside > 3 * outside
        assert tile.emission_kg_h == pytest.approx(sum(source.emission_kg_h for source in tile.sources))


def test_without_sources_there_is_nothing():
    tile = simulate_tile(tile_generator(3, 0), settings(plume=False), "a").tile
    assert not tile.label.any()
    assert not tile.enhancement_ppm_m.any()
    assert tile.emission_kg_h == 0.0


def test_beyond_the_flight_line_radiance_is_zero_and_invalid():
    scene = simulate_tile(tile_generator(3, 0), settings(edge_chance=1.0), "a").tile.scene
    assert not scene.valid.all()
    assert not scene.radiance[:, ~scene.valid].any()
    assert not scene.rgb[:, ~scene.valid].any()


def test_cluttered_scenes_span_decades_of_radiance():
    made = [simulate_tile(tile_generator(9, index), settings(plume=False), "a").tile.scene for index in range(12)]
    levels = [np.quantile(scene.radiance[5][scene.valid], [0.001, 0.999]) for scene in made]
    low, high = np.min(levels, axis=0)[0], np.max(levels, axis=0)[1]
    assert high > 100 * low
    assert max(top / max(bottom, 1e-3) for bottom, top in levels) > 30


def test_narrow_is_narrower_than_cluttered():
    def spread(name):
        made = [simulate_tile(tile_generator(9, i), settings(name, plume=False), "a").tile.scene for i in range(6)]
        return np.std([np.log(np.median(scene.radiance[40][scene.valid])) for scene in made])

    assert spread("narrow") < spread("cluttered")


def test_visible_noise_grows_where_the_ground_is_dark():
    made = simulate_tile(tile_generator(3, 2), settings("narrow", plume=False, edge_chance=0.0), "a")
    spectrum = unit_absorption(made.tile.scene.bands)
    valid = np.ones((SIZE, SIZE), np.bool_)
    rng = np.random.default_rng(0)
    light = np.ones((SIZE, SIZE), np.float32)
    light[:, SIZE // 2 :] = 0.1
    radiance = made.background_radiance * light
    radiance = radiance + made.noise_sigma * rng.standard_normal(radiance.shape, dtype=np.float32)
    noise = visible_noise(radiance, valid, spectrum)
    assert noise[:, 40:].mean() > 2 * noise[:, :8].mean()


def test_the_annotators_matched_filter_finds_a_known_enhancement():
    made = simulate_tile(tile_generator(3, 2), settings("narrow", plume=False, edge_chance=0.0), "a")
    scene = made.tile.scene
    spectrum = unit_absorption(scene.bands)
    radiance = scene.radiance.copy()
    radiance[:, 20, 20] *= np.exp(spectrum * 10_000.0 / 1e5).astype(np.float32)
    before, noise = matched_filter(scene.radiance, scene.valid, spectrum)
    after, _ = matched_filter(radiance, scene.valid, spectrum)
    assert after[20, 20] - before[20, 20] == pytest.approx(10_000.0, rel=0.25)
    assert 50 < noise < 2000


def test_unknown_presets_and_impossible_ranges_are_refused():
    with pytest.raises(FlameError, match="known are wide, narrow, permian"):
        preset("huge")
    with pytest.raises(FlameError, match="at least 16"):
        preset("wide", size=8)
    with pytest.raises(FlameError, match="low <= high"):
        Range(2.0, 1.0)


def test_another_sensor_brings_its_bands_and_pixels():
    chosen = preset("cluttered", size=32, sensor_name="emit")
    tile = simulate_tile(tile_generator(0, 0), chosen, "a").tile
    assert chosen.pixel_m == 60.0
    assert len(tile.scene.bands) == tile.scene.radiance.shape[0] < 72


def test_invisible_plumes_are_raised_only_if_that_makes_them_visible():
    chosen = settings(plume=True)
    weak = replace(chosen.plume, emission_median_kg_h=20.0, emission_log_sigma=0.01, burst_share=0.0, margin=0.0)
    everywhere, noise = np.ones((SIZE, SIZE), np.bool_), np.full((SIZE, SIZE), 500.0, np.float32)
    drawn, seen, hidden = (
        draw_labelled_plume(np.random.default_rng(1), replace(chosen, plume=weak, raise_limit=limit), 1.0, noise, valid)
        for limit, valid in ((1.0, everywhere), (100.0, everywhere), (100.0, np.zeros((SIZE, SIZE), np.bool_)))
    )
    assert not drawn.label.any()
    assert seen.label.any()
    factor = seen.sources[0].emission_kg_h / drawn.sources[0].emission_kg_h
    assert 1.0 < factor < 100.0
    np.testing.assert_allclose(seen.slant_ppm_m, factor * drawn.slant_ppm_m, rtol=1e-4)
    assert hidden.sources == drawn.sources
