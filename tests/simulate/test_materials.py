import numpy as np
import pytest

from flame.physics import sensor
from flame.simulate.materials import FEATURES, feature_absorbance, solar_irradiance, spectra_of, surface_table

BANDS = sensor("aviris-ng").bands.methane()


def test_the_packaged_library_is_reflectance():
    table = surface_table()
    assert table.swir.min() > 0
    assert table.swir.max() < 1
    assert {"soil", "sand", "canopy", "dry_plant", "char", "road", "roof", "paint"} == set(table.kind.tolist())
    assert table.swir_nm[0] <= 2122
    assert table.swir_nm[-1] >= 2500


def test_sunlight_at_2200_nm_is_the_standards():
    # ASTM G173 above the air: 0.0828 W m-2 nm-1 at 2200 nm.
    assert solar_irradiance(BANDS)[BANDS.nearest(2200.0)] == pytest.approx(8.28, rel=0.02)


@pytest.mark.parametrize("kind", ["soil", "canopy", "water", "tar"])
def test_spectra_have_a_value_for_every_band(kind):
    swir, visible = spectra_of(kind, 3, BANDS, np.random.default_rng(0))
    assert swir.shape == (3, len(BANDS))
    assert visible.shape == (3, 3)
    assert (swir > 0).all()
    assert (swir <= 1).all()


def test_water_is_far_darker_than_sand_and_tar_between():
    rng = np.random.default_rng(0)
    water = spectra_of("water", 50, BANDS, rng)[0].mean()
    tar = spectra_of("tar", 50, BANDS, rng)[0].mean()
    sand = spectra_of("sand", 50, BANDS, rng)[0].mean()
    assert sand > 10 * tar > 20 * water


def test_alike_spectra_resemble_each_other():
    def spread(alike):
        rng = np.random.default_rng(1)
        return np.mean([np.log(spectra_of("soil", 8, BANDS, rng, alike)[0]).std(axis=0).mean() for _ in range(20)])

    assert spread(0.05) < 0.5 * spread(1.0)


@pytest.mark.parametrize(("name", "at_nm"), [("carbonate", 2335), ("clay", 2207), ("hydrocarbon", 2310)])
def test_sharp_absorbers_lie_where_they_should(name, at_nm):
    depth = feature_absorbance(name, BANDS)
    assert abs(BANDS.centres_nm[np.argmax(depth)] - at_nm) < 4
    assert depth.max() == pytest.approx(1.0, abs=0.2)
    assert set(FEATURES) >= {"carbonate", "clay", "hydrocarbon", "plastic", "pvc_roof", "lignin"}
