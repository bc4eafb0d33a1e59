"""Sensors, their noise, and units."""

import numpy as np
import pytest

from flame.physics import (
    SENSORS,
    UnknownSensorError,
    UnknownUnitError,
    kg_per_m2_from_ppm_m,
    noise_model,
    radiance_scale,
    sensor,
)


@pytest.mark.parametrize("name", SENSORS)
def test_every_sensor_sees_methane_and_rgb_and_has_a_noise_model(name):
    bands = sensor(name).bands
    assert len(bands.methane()) >= 30
    for wavelength_nm in (640.0, 550.0, 460.0):
        assert abs(bands.centres_nm[bands.nearest(wavelength_nm)] - wavelength_nm) < 6
    sigma = noise_model(name).sigma(np.full((len(bands), 2), 0.5), bands)
    snr = 0.5 / sigma[bands.nearest(2200.0)]
    assert (snr > 50).all()
    assert (snr < 1000).all()


def test_aviris_ng_methane_bands_are_the_papers_72():
    centres_nm = sensor("aviris-ng").bands.methane().centres_nm
    assert len(centres_nm) == 72
    assert abs(centres_nm[0] - 2124) < 1
    assert abs(centres_nm[-1] - 2480) < 1


def test_emit_grid_is_the_l1b_one():
    """Values from the L1B product's wavelength list."""
    centres_nm = sensor("emit").bands.centres_nm
    for index, expected_nm in ((0, 381.0056), (100, 1126.1965), (200, 1870.7331), (263, 2337.7262), (284, 2492.9239)):
        assert abs(centres_nm[index] - expected_nm) < 0.15


def test_noise_grows_with_signal_slower_than_the_signal():
    bands = sensor("aviris-ng").bands.methane()
    radiance = np.geomspace(0.01, 10, 20)[None, :] * np.ones((len(bands), 1))
    sigma = noise_model("aviris-ng").sigma(radiance, bands)
    assert (np.diff(sigma, axis=1) > 0).all()
    assert (np.diff(radiance / sigma, axis=1) > 0).all()
    assert np.isfinite(noise_model("aviris-ng").sigma(-radiance, bands)).all()


def test_aviris_ng_noise_agrees_with_isofit():
    """a sqrt(b + L) of avirisng_noise.txt at 2300 nm: 0.002785 sqrt(0.0995 + 1)."""
    bands = sensor("aviris-ng").bands.methane()
    sigma = noise_model("aviris-ng").sigma(np.ones((len(bands), 1)), bands)[bands.nearest(2300.0), 0]
    assert abs(sigma / (0.002785276 * np.sqrt(0.09945 + 1)) - 1) < 0.01


def test_unknown_names_list_the_known():
    with pytest.raises(UnknownSensorError, match="aviris-ng, aviris-3, emit"):
        sensor("landsat")
    with pytest.raises(UnknownUnitError, match="uW cm-2 nm-1 sr-1"):
        radiance_scale("DN")


def test_units():
    assert radiance_scale("W m-2 um-1 sr-1") == pytest.approx(radiance_scale("mW m-2 nm-1 sr-1"))
    assert radiance_scale("W m-2 nm-1 sr-1") == 100.0
    # One ppm m of methane is 1e-6 m of pure gas; its density at 0 degC and 1 atm is 0.716 kg per cubic metre.
    assert kg_per_m2_from_ppm_m(1.0) == pytest.approx(0.716e-6, rel=2e-3)
