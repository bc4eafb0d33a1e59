"""Fresh tiles: the same physics as the simulator's, in any bands, repeatable, with the truth beside them."""

from dataclasses import fields, replace

import numpy as np
import pytest

from flame.errors import FlameError
from flame.physics import BandSet, kg_per_m2_from_ppm_m, noise_model, sensor, transmittance, unit_absorption
from flame.scene import Acquisition, Scene
from flame.simulate import (
    Background,
    FreshSettings,
    FreshTiles,
    NoisePool,
    PlumeSettings,
    Range,
    background_of,
    draw_background,
    fine_grid,
    load_backgrounds,
    make_plume_pool,
    preset,
    save_backgrounds,
    tile_generator,
)
from flame.simulate.backgrounds import optics
from flame.simulate.foreign import ForeignSettings, _parcels, draw_foreign
from flame.simulate.settings import InstrumentSettings

SIZE = 40
BANDS = sensor("aviris-ng").bands.methane()
PLUMES = PlumeSettings(source_shares=(0.0, 1.0), emission_median_kg_h=300.0, burst_share=0.0)
STILL = FreshSettings(
    brightness=Range(1.0, 1.0), noise_scale=Range(1.0, 1.0), shift_nm=Range(0.0, 0.0), fwhm_factor=Range(1.0, 1.0),
    band_gain=Range(0.0, 0.0), band_mismatch=Range(0.0, 0.0), mix_chance=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def backgrounds():
    settings = preset("wide", size=SIZE).each(lambda s: replace(s, instrument=replace(s.instrument, edge_chance=0.0)))
    return tuple(draw_background(tile_generator(4, index), settings, f"b{index}") for index in range(3))


@pytest.fixture(scope="module")
def plumes():
    return make_plume_pool(np.random.default_rng(0), 4, SIZE, 5.0, PLUMES)


@pytest.fixture(scope="module")
def noise():
    return NoisePool(np.random.default_rng(1), 1 << 20)


@pytest.mark.parametrize("name", ["aviris-ng", "emit", "enmap"])
def test_transmittance_on_the_fine_grid_is_the_tables_own(name):
    bands = sensor(name).bands.methane()
    slant = np.geomspace(5.0, 30_000.0, 60).astype(np.float32)
    exact = np.log(transmittance(slant, bands))
    np.testing.assert_allclose(optics(bands).log_transmittance(slant), exact, rtol=0.02, atol=3e-5)


def test_bands_average_the_fine_grid():
    seen = optics(BANDS)
    np.testing.assert_allclose(seen.response.sum(axis=1), 1.0, rtol=1e-5)
    line = fine_grid().centres_nm.astype(np.float32)
    np.testing.assert_allclose(seen.response @ line, BANDS.centres_nm, atol=0.01)
    # The variance of the cells' own 3 nm and that of the weights add up to the band's.
    spread = seen.response @ np.square(line - 2300.0) - np.square(seen.response @ (line - 2300.0))
    sigma_nm = BANDS.fwhm_nm / 2.3548
    np.testing.assert_allclose(spread + (3.0 / 2.3548) ** 2, sigma_nm**2, rtol=0.05)
    with pytest.raises(FlameError, match="at least 4 nm"):
        optics(BandSet(BANDS.centres_nm, np.full(len(BANDS), 3.0)))


def test_a_shifted_sensor_sees_the_spectrum_shifted(backgrounds):
    ground = backgrounds[0]
    moved = BandSet(BANDS.centres_nm + 0.5, BANDS.fwhm_nm)
    half = BandSet(BANDS.centres_nm + 0.25, BANDS.fwhm_nm)
    here, middle, there = (ground.radiance(optics(bands)) for bands in (BANDS, half, moved))
    change = np.abs(there / here - 1).max()
    assert change > 0.005
    assert np.abs(middle / ((here + there) / 2) - 1).max() < 0.1 * change


def test_a_real_scene_keeps_its_radiance_and_its_bands():
    rng = np.random.default_rng(0)
    level = rng.uniform(0.1, 0.5, (1, SIZE, SIZE))
    slope = 1 + 0.1 * rng.standard_normal((1, SIZE, SIZE)) * np.linspace(-1, 1, len(BANDS))[:, None, None]
    scene = Scene(
        (level * slope).astype(np.float32), BANDS, np.ones((SIZE, SIZE), np.bool_),
        acquisition=Acquisition(sensor="aviris-ng", solar_zenith_deg=40.0, view_zenith_deg=0.0, source="chip"),
    )  # fmt: skip
    ground = background_of(scene, rng, preset("permian", size=SIZE))
    assert len(ground.spectra) < 5
    np.testing.assert_allclose(ground.radiance(optics(BANDS, BANDS)), scene.radiance, rtol=2e-3)
    with pytest.raises(FlameError, match="quarter of their spacing"):
        optics(BandSet(BANDS.centres_nm + 3.0, BANDS.fwhm_nm), BANDS)


def test_the_same_state_gives_the_same_bytes(backgrounds, plumes, noise):
    tiles = FreshTiles(backgrounds, plumes, noise)
    first, again, other = (tiles.draw(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.radiance.tobytes() == again.radiance.tobytes()
    assert first.label.tobytes() == again.label.tobytes()
    assert first.radiance.tobytes() != other.radiance.tobytes()


def test_radiance_is_background_times_transmittance_plus_noise(backgrounds, plumes, noise):
    tiles = FreshTiles(backgrounds, plumes, noise, STILL)
    tile = tiles.draw(np.random.default_rng(5), index=1)
    rng = np.random.default_rng(5)
    ground = backgrounds[1].turned(int(rng.integers(4)), bool(rng.integers(2)))
    signal = ground.radiance(optics(BANDS)) * transmittance(tile.enhancement_ppm_m, BANDS)
    left = (tile.radiance - signal) / noise_model("aviris-ng").sigma(signal, BANDS)
    assert tile.enhancement_ppm_m.max() > 500
    assert left.std() == pytest.approx(1.0, abs=0.02)
    assert abs(left[:, tile.enhancement_ppm_m > 300].mean()) < 0.1


def test_noise_scale_reaches_noise_and_plumes(backgrounds, plumes, noise):
    loud, calm = (
        FreshTiles(backgrounds, plumes, noise, replace(STILL, noise_scale=Range(s, s))).draw(np.random.default_rng(3))
        for s in (1.0, 0.25)
    )
    np.testing.assert_allclose(calm.enhancement_ppm_m, 0.25 * loud.enhancement_ppm_m, rtol=1e-4, atol=1e-3)
    assert calm.noise_scale == 0.25


def test_any_bands_can_be_asked_for(backgrounds, plumes, noise):
    rng = np.random.default_rng(0)
    centres = np.sort(rng.uniform(2125, 2480, 30))
    centres = centres[np.concatenate([[True], np.diff(centres) > 1])]
    bands = BandSet(centres, np.full(centres.size, 9.0))
    tile = FreshTiles(backgrounds, plumes, noise).draw(rng, bands, "emit")
    assert tile.radiance.shape == (centres.size, SIZE, SIZE)
    assert tile.bands is bands


def test_mixing_brings_in_another_background(backgrounds, plumes, noise):
    mixed = FreshTiles(backgrounds, plumes, noise, replace(STILL, mix_chance=1.0))
    pure = FreshTiles(backgrounds, plumes, noise, STILL)
    differences = []
    for seed in range(4):
        one, two = (tiles.draw(np.random.default_rng(seed), index=0).radiance for tiles in (mixed, pure))
        differences.append(np.abs(np.log(np.maximum(one, 1e-3) / np.maximum(two, 1e-3))).mean())
    assert max(differences) > 0.1


def test_pooled_plumes_keep_their_emission(plumes):
    pool = make_plume_pool(
        np.random.default_rng(2), 12, 64, 5.0, replace(PLUMES, intensity_range=(0.05, 0.1), margin=0.0)
    )
    ratios = []
    for seed in range(40):
        column, (source,) = pool.draw(np.random.default_rng(seed), (64, 64))
        # Mass between the source and the edge downwind is emission times travel time, if the plume leaves straight.
        angle = np.deg2rad(source.wind_to_deg)
        step = np.array([-np.cos(angle), np.sin(angle)])
        with np.errstate(divide="ignore"):
            exits = np.where(step > 0, (64 - np.array([source.row, source.col])) / step,
                             -np.array([source.row, source.col]) / step)  # fmt: skip
        travel_s = float(np.min(np.abs(exits))) * 5.0 / source.wind_m_s
        mass_kg = column.sum(dtype=np.float64) * kg_per_m2_from_ppm_m() * 25.0
        if travel_s * source.wind_m_s > 100.0:
            ratios.append(mass_kg / (source.emission_kg_h / 3600.0 * travel_s))
    assert len(ratios) > 10
    assert np.median(ratios) == pytest.approx(1.0, abs=0.15)


def test_noise_from_the_pool_is_white_and_of_unit_variance(noise):
    drawn = noise.draw(np.random.default_rng(0), (8, 64, 64))
    assert drawn.std() == pytest.approx(1.0, abs=0.02)
    assert abs(np.corrcoef(drawn[:, :, 1:].ravel(), drawn[:, :, :-1].ravel())[0, 1]) < 0.02
    with pytest.raises(FlameError, match="needs a pool of"):
        noise.draw(np.random.default_rng(0), (1 << 18,))


def test_the_two_stretches_of_noise_never_overlap():
    pool = NoisePool(np.random.default_rng(0), 800)
    pool._values = np.arange(800, dtype=np.float32)
    for seed in range(500):
        # Values that are their own places: the sum less the first place is the second.
        rng = np.random.default_rng(seed)
        first = int(np.random.default_rng(seed).integers(0, 700))
        second = int(pool.draw(rng, (100,))[0]) - first
        assert abs(second - first) >= 100


def test_backgrounds_come_back_from_disk_as_they_were(backgrounds, tmp_path):
    again = load_backgrounds(save_backgrounds(tmp_path / "pool.npz", backgrounds))
    assert len(again) == len(backgrounds)
    for one, other in zip(backgrounds, again, strict=True):
        for entry in fields(Background):
            mine, read = getattr(one, entry.name), getattr(other, entry.name)
            assert mine.matches(read) if entry.name == "grid" else np.array_equal(mine, read), entry.name
    with pytest.raises(FlameError, match="no such file"):
        load_backgrounds(tmp_path / "none.npz")
    (tmp_path / "other.npz").write_bytes(b"something else")
    with pytest.raises(FlameError, match="holds no backgrounds"):
        load_backgrounds(tmp_path / "other.npz")


def test_plumes_as_strong_as_asked(backgrounds, plumes, noise):
    settings = replace(STILL, plume_snr=Range(8.0, 8.0), plume_follows_noise=False)
    strengths = []
    for seed in range(6):
        tile = FreshTiles(backgrounds, plumes, noise, settings).draw(np.random.default_rng(seed), index=0)
        strong = np.quantile(tile.enhancement_ppm_m, 0.995)
        visible = np.median(backgrounds[0].visible_ppm_m[1])
        strengths.append(strong / visible)
        assert sum(source.emission_kg_h for source in tile.sources) > 0
    np.testing.assert_allclose(strengths, 8.0, rtol=0.1)


def test_foreign_things_change_the_ground_and_not_the_truth(backgrounds, plumes, noise):
    plain = FreshTiles(backgrounds, plumes, noise, STILL)
    strange = FreshTiles(backgrounds, plumes, noise, replace(STILL, foreign=ForeignSettings(chance=1.0)))
    one, two = (tiles.draw(np.random.default_rng(3), index=0) for tiles in (plain, strange))
    change = np.abs(two.radiance.mean(axis=0) / one.radiance.mean(axis=0) - 1)[one.valid & two.valid]
    assert change.max() > 0.02


def test_parcels_cover_the_tile_and_none_is_a_sliver():
    number = _parcels(np.random.default_rng(5), (96, 96), ForeignSettings())
    inner = [int((number == own).sum()) for own in np.unique(number[20:-20, 20:-20])]
    assert 4 < len(inner) < 100
    assert np.median(inner) >= 64  # the edge of the tile cuts some


def test_parcels_change_every_pixel_of_a_tile():
    bands = sensor("aviris-ng").bands.methane()
    with_parcels, without = (
        draw_foreign(np.random.default_rng(5), bands, (64, 64), ForeignSettings(chance=1.0, parcel_chance=chance))
        for chance in (1.0, 0.0)
    )
    assert (np.abs(with_parcels - without).max(axis=0) > 0).mean() > 0.99


def test_foreign_curves_are_no_sharper_than_the_bands():
    coarse = BandSet(np.arange(2130.0, 2480.0, 10.0), np.full(35, 12.0))
    settings = ForeignSettings(chance=1.0, narrowest_nm=0.5, widest_nm=0.6, contrast=0.0, parcel_chance=0.0)
    drawn = [draw_foreign(np.random.default_rng(seed), coarse, (16, 16), settings) for seed in range(20)]
    assert all(found is not None and np.abs(found).max() <= 5 * settings.strongest for found in drawn)


@pytest.mark.parametrize("name", ["aviris-ng", "emit"])
def test_some_foreign_things_absorb_like_methane_but_none_is_methane(name):
    bands = sensor(name).bands.methane()
    methane = unit_absorption(bands)

    def alike(share):
        settings = ForeignSettings(chance=1.0, most=1, contrast=0.0, parcel_chance=0.0, methane_like=share)
        drawn = [draw_foreign(np.random.default_rng(seed), bands, (16, 16), settings) for seed in range(40)]
        curves = [found.reshape(len(bands), -1)[:, np.argmax(np.abs(found).max(axis=0))] for found in drawn]
        return np.array([np.corrcoef(curve, methane)[0, 1] for curve in curves if curve.any()])

    assert np.median(alike(1.0)) > 0.6
    assert alike(1.0).max() < 0.99
    assert np.median(np.abs(alike(0.0))) < 0.5


def test_a_tile_may_have_nothing_foreign():
    bands = sensor("emit").bands.methane()
    assert draw_foreign(np.random.default_rng(0), bands, (16, 16), ForeignSettings(chance=0.0)) is None


def test_a_part_of_the_ground_is_that_part(backgrounds):
    part = backgrounds[0].cut(3, 5, 20)
    seen = optics(BANDS)
    # Alike to the last digits only: a matrix product of another size may be summed in another order.
    np.testing.assert_allclose(part.radiance(seen), backgrounds[0].radiance(seen)[:, 3:23, 5:25], rtol=2e-6)
    np.testing.assert_array_equal(part.visible_ppm_m, backgrounds[0].visible_ppm_m[:, 3:23, 5:25])


def test_stripes_are_lines_of_their_own_in_every_band(backgrounds, plumes, noise):
    faults = InstrumentSettings(
        stripe=Range(0.05, 0.05), column_gain=Range(0.0, 0.0), band_offset=Range(0.0, 0.0), edge_chance=0.0,
        dead_column_chance=0.0, saturation_chance=0.0, rotation_deg=Range(0.0, 0.0),
    )  # fmt: skip
    striped = replace(STILL, faults=faults, fault_chance=1.0, noise_scale=Range(1e-3, 1e-3))
    plain = replace(striped, faults=replace(faults, stripe=Range(0.0, 0.0)))
    tile, clean = (FreshTiles(backgrounds, plumes, noise, s).draw(np.random.default_rng(5)) for s in (striped, plain))
    gain = tile.radiance / clean.radiance
    assert gain.mean(axis=1).std() == pytest.approx(0.05, rel=0.2)
    assert np.abs(gain - gain.mean(axis=1, keepdims=True)).mean() < 0.005
    assert abs(np.corrcoef(gain.mean(axis=1)[:2])[0, 1]) < 0.6


def test_a_mapped_tile_repeats_samples_in_every_layer(backgrounds, plumes, noise):
    faults = InstrumentSettings(map_chance=1.0, samples_per_pixel=Range(0.6, 0.6), edge_chance=0.0)
    settings = FreshSettings(faults=faults, fault_chance=1.0)
    tile = FreshTiles(backgrounds, plumes, noise, settings).draw(np.random.default_rng(3))
    flat = tile.radiance.reshape(len(tile.radiance), -1)
    _, first, place = np.unique(flat, axis=1, return_index=True, return_inverse=True)
    assert len(first) < 0.8 * flat.shape[1]
    assert (tile.enhancement_ppm_m.ravel()[first][place.ravel()] == tile.enhancement_ppm_m.ravel()).all()
    assert tile.label.shape == tile.valid.shape
