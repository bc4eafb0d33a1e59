"""Plumes of a detection, measured: a known column in, its mass, source, rates and spectrum out."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import ndimage

from flame.onboard import FilterDetector
from flame.physics import Wind, WindError, airmass_of, kg_per_m2_from_ppm_m, path_factor, transmittance
from flame.pipeline.measure import MeasureSettings, measure_scene, reach_px
from flame.pipeline.retrieval import Retrieval, Surroundings, retrieve_again
from flame.rates import RateError, coefficient_sets
from flame.scene import GeoGrid
from flame.simulate import preset, simulate_tile, tile_generator

PIXEL_M = 30.0
GEO = GeoGrid(crs="EPSG:32631", affine=(PIXEL_M, 0.0, 500_000.0, 0.0, -PIXEL_M, 4_000_000.0))
WIND = Wind(4.0, 270.0, 0.0)


def _column(shape, peak=3000.0):
    """A plume that begins at row 48, column 20 and runs to the right, to the east."""
    row, col = np.mgrid[0 : shape[0], 0 : shape[1]]
    along, across = col - 20.0, row - 48.0
    width = 1.5 + 0.08 * np.maximum(along, 0)
    share = np.exp(-np.maximum(along, 0) / 30) * np.exp(-0.5 * (across / width) ** 2) * (along >= 0)
    return (peak * share * (share > 0.02)).astype(np.float32)


def _scene(peak=3000.0, **changes):
    settings = preset("narrow", size=96, sensor_name="aviris-ng")
    settings = replace(settings, plume=replace(settings.plume, source_shares=(1.0,)))
    made = simulate_tile(
        tile_generator(21, 4), replace(settings, instrument=replace(settings.instrument, edge_chance=0.0)), "x"
    )
    scene = made.tile.scene
    seen = scene.acquisition
    column = _column(scene.shape, peak)
    slant = column * path_factor(airmass_of(seen.solar_zenith_deg, seen.view_zenith_deg))
    noise = scene.radiance - made.background_radiance
    radiance = made.background_radiance * transmittance(slant, scene.bands).astype(np.float32) + noise
    acquisition = replace(seen, time=datetime(2024, 2, 28, 6, 30, tzinfo=UTC))
    made_scene = replace(scene, radiance=radiance.astype(np.float32), geo=GEO, acquisition=acquisition)
    return replace(made_scene, **changes), column, slant


@pytest.fixture(scope="module")
def seen():
    scene, column, slant = _scene()
    return scene, column, slant, FilterDetector().run(scene)


def test_a_known_plume_is_measured(seen):
    scene, column, _, detection = seen
    record = measure_scene(scene, detection, "place", MeasureSettings(winds=(WIND, Wind(2.0, 270.0, 0.5))))
    plume = record.plumes[0]
    assert (plume.id, plume.number) == ("place-A", 1)
    inside = detection.mask & (column > 1.0)
    truth = column[inside].sum(dtype=np.float64) * kg_per_m2_from_ppm_m() * PIXEL_M**2
    assert plume.mass.ime_kg == pytest.approx(truth, rel=0.1)
    assert plume.mass.sigma_kg > plume.mass.noise_sigma_kg > 0
    assert np.hypot(plume.source.row - 48.5, plume.source.col - 20.5) < 5
    assert abs((plume.shape.to_deg - 90.0 + 180) % 360 - 180) < 15
    assert abs((plume.image_deg - 90.0 + 180) % 360 - 180) < 15
    assert plume.source.latitude_deg == pytest.approx(36.1, abs=0.1)
    # Each wind has each method, and a rate grows with its wind.
    assert [rate.method for rate in plume.rates] == ["ime", "fetch", "cross-section"] * 2
    for strong, weak in zip(plume.rates[:3], plume.rates[3:], strict=True):
        assert strong.kg_h > weak.kg_h > 0
        assert (strong.wind.speed_m_s, weak.wind.speed_m_s) == (4.0, 2.0)
        assert strong.sigma_kg_h > 0
        assert strong.coefficients == "flame"
    assert plume.rate is plume.rates[0]
    assert plume.check.p_value < 0.05
    assert plume.check.inside.shape == plume.check.outside.shape == (len(scene.bands),)
    assert plume.check.amplitudes["methane"] == pytest.approx(plume.check.alpha_ppm_m)
    # The map holds what the plume was weighed with.
    box = record.enhancement_ppm_m[plume.plume.peak_row, plume.plume.peak_col]
    assert float(box) == plume.plume.peak_ppm_m


def test_without_wind_there_is_a_rate_for_each_m_s_and_a_note(seen):
    scene, _, _, detection = seen
    record = measure_scene(scene, detection, "x", MeasureSettings(check=False))
    assert record.plumes[0].rates == ()
    assert record.plumes[0].rate is None
    assert record.plumes[0].unit_rate.kg_h_per_m_s > 0
    assert record.plumes[0].check is None
    assert any("--wind" in note for note in record.notes)


def test_rates_under_outlines_that_were_not_fitted_are_noted_and_nothing_is_said_of_what_could_be_seen(seen):
    scene, _, _, by_filter = seen
    settings = MeasureSettings(winds=(WIND,), check=False)
    asked = measure_scene(scene, by_filter, "x", settings)
    unasked = measure_scene(scene, replace(by_filter, unasked=True), "x", settings)
    assert any("fitted to outlines as flame-plus draws them unasked" in note for note in asked.notes)
    assert not any("unasked" in note for note in unasked.notes)
    assert asked.limits == ()
    assert unasked.limits


def test_a_scene_without_a_place_has_plumes_but_no_mass(seen):
    scene, _, _, detection = seen
    record = measure_scene(replace(scene, geo=None), detection, "x", MeasureSettings(winds=(WIND,), check=False))
    plume = record.plumes[0]
    assert (plume.mass, plume.shape, plume.rates, plume.unit_rate) == (None, None, (), None)
    assert (plume.source.longitude_deg, plume.source.latitude_deg) == (None, None)
    assert any("does not say where it is" in note for note in plume.notes)


def test_winds_of_a_file_are_looked_up_at_the_plume_and_what_it_lacks_is_told(seen, tmp_path):
    scene, _, _, detection = seen
    near, far = tmp_path / "near.csv", tmp_path / "far.csv"
    near.write_text("time,latitude,longitude,speed,direction\n2024-02-28T06:30:00Z,36.1,3.0,3.5,270\n")
    far.write_text("time,latitude,longitude,speed,direction\n2024-02-28T06:30:00Z,-20,3.0,9,270\n")
    settings = MeasureSettings(wind_files=(near, far), check=False)
    record = measure_scene(scene, detection, "x", settings)
    plume = record.plumes[0]
    assert {rate.wind.speed_m_s for rate in plume.rates} == {3.5}
    assert {rate.wind.source for rate in plume.rates} == {"near.csv"}
    assert any("no wind from far.csv" in note for note in plume.notes)
    assert len(record.wind_notes) == 1
    assert record.wind_notes[0].startswith("no wind from far.csv")
    assert str(tmp_path) not in record.wind_notes[0]


def test_what_a_file_lacks_is_told_of_a_scene_without_plumes_or_without_time_or_place(seen, tmp_path):
    scene, _, _, detection = seen
    far, near = tmp_path / "far.csv", tmp_path / "near.csv"
    far.write_text("latitude,longitude,speed\n-20,3.0,9\n")
    near.write_text("time,latitude,longitude,speed\n1999-02-28T06:30:00Z,36.1,3.0,9\n")
    nothing = replace(detection, mask=np.zeros_like(detection.mask))
    timeless = replace(scene, acquisition=replace(scene.acquisition, time=None))
    for each, file, words in (
        (scene, far, "within 100 km of 36.1"),
        (scene, near, "hours may lie between"),
        (timeless, near, "does not say when it was taken"),
        (replace(scene, geo=None), far, "place is not known"),
    ):
        record = measure_scene(each, nothing, "x", MeasureSettings(wind_files=(file,), check=False))
        assert record.plumes == ()
        assert len(record.wind_notes) == 1
        assert words in record.wind_notes[0]
    near.write_text("latitude,longitude,speed\n36.1,3.0,9\n")
    record = measure_scene(scene, nothing, "x", MeasureSettings(wind_files=(near,), check=False))
    assert ([wind.speed_m_s for wind in record.winds], record.wind_notes) == ([9.0], ())
    near.write_text("time,latitude,longitude,speed\n1999-02-28T06:30:00Z,36.1,3.0,9\n")
    record = measure_scene(timeless, detection, "x", MeasureSettings(wind_files=(near,), check=False))
    assert record.plumes[0].rates == ()
    assert any("does not say when" in note for note in record.plumes[0].notes)


def test_a_calm_is_told_of_plume_and_scene_and_does_not_lead(seen):
    scene, _, _, detection = seen
    calm = Wind(0.4, 0.0)
    record = measure_scene(scene, detection, "x", MeasureSettings(winds=(calm, WIND), check=False))
    plume = record.plumes[0]
    assert plume.rate.wind is WIND
    assert not plume.shape.wind_disagrees
    told = [note for note in plume.all_notes if "nearly calm" in note]
    assert told == ["wind of 0.4 m/s (given): nearly calm: the plume is not steady, trust the mass more than the rate"]
    assert list(record.wind_notes) == told


def test_the_rate_for_each_m_s_agrees_with_the_rates(seen):
    scene, _, _, detection = seen
    plume = measure_scene(scene, detection, "x", MeasureSettings(winds=(WIND,), check=False)).plumes[0]
    by_fetch = next(rate for rate in plume.rates if rate.method == "fetch")
    unit = plume.unit_rate
    assert unit.kg_h_per_m_s * WIND.speed_m_s + unit.offset_kg_h == pytest.approx(by_fetch.kg_h)
    assert unit.coefficients == "flame"


def test_what_cannot_be_meant_is_refused_before_the_work(tmp_path):
    with pytest.raises(WindError, match="no such file"):
        MeasureSettings(wind_files=(tmp_path / "absent.csv",))
    (tmp_path / "wind.csv").write_text("time;latitude;longitude;speed\n")
    with pytest.raises(WindError, match="not separated by commas"):
        MeasureSettings(wind_files=(tmp_path / "wind.csv",))
    with pytest.raises(RateError, match="known are flame"):
        MeasureSettings(coefficients="varon")
    assert set(coefficient_sets()) == {"flame", "emit", "hygas", "hypergas"}


def test_the_key_tells_settings_and_the_content_of_wind_files_apart(tmp_path):
    file = tmp_path / "w.csv"
    row = "latitude,longitude,speed\n36.1,3.0,"
    file.write_text(f"{row}4\n")
    first = MeasureSettings(wind_files=(file,))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "w.csv").write_text(f"{row}4\n")
    assert MeasureSettings(wind_files=(tmp_path / "other" / "w.csv",)).key() == first.key()
    before = first.key()
    file.write_text(f"{row}5\n")
    assert first.key() != before
    assert MeasureSettings(winds=(WIND,)).key() != MeasureSettings().key()


def test_a_file_that_is_being_written_to_later_does_not_end_a_watch(tmp_path):
    file = tmp_path / "w.csv"
    file.write_text("latitude,longitude,speed\n36.1,3.0,4\n")
    settings = MeasureSettings(wind_files=(file,))
    file.write_text("latitude,longitude,speed\n36.1,3.0,4\n36.")
    assert settings.absolute() is settings


def test_the_ground_is_learned_without_the_plumes():
    """What is read beside a plume does not depend on how strong the plume is, and the plume itself comes out right."""
    found = []
    for peak in (300.0, 9000.0):
        scene, column, slant = _scene(peak)
        zero = np.zeros(scene.shape, np.float32)
        around, plumes = Surroundings(scene.radiance, scene.bands), column > 0
        found.append(retrieve_again(around, scene.valid, plumes, Retrieval(zero, zero, "nothing")).enhancement_ppm_m)
    far = scene.valid & ~ndimage.binary_dilation(plumes, np.ones((3, 3)), iterations=8)
    np.testing.assert_allclose(found[0][far], found[1][far], rtol=1e-4, atol=0.05)
    assert found[1][plumes].sum() == pytest.approx(slant[plumes].sum(), rel=0.1)


def test_a_model_without_sigma_is_weighed_with_the_filter(seen):
    scene, _, _, detection = seen
    network = replace(detection, estimate_ppm_m=None, score_ppm_m=0.3 * detection.score_ppm_m)
    mass = [
        measure_scene(scene, each, "x", MeasureSettings(check=False)).plumes[0].mass for each in (detection, network)
    ]
    assert mass[1].ime_kg == pytest.approx(mass[0].ime_kg, rel=1e-3)


def test_fragments_reach_as_far_as_pixels_and_metres_allow():
    scene, *_ = _scene()
    assert reach_px(scene) == 5.0
    coarse = GeoGrid(crs="EPSG:32631", affine=(100.0, 0.0, 500_000.0, 0.0, -100.0, 4_000_000.0))
    assert reach_px(replace(scene, geo=coarse)) == pytest.approx(2.0, rel=0.01)
    assert reach_px(replace(scene, geo=None)) == 5.0
