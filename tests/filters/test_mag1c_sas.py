"""MAG1C-SAS: how it samples. Parity with onboard-methane-detection stands in tests/parity."""

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.filters import FilterError, Mag1cSasSettings, Mag1cSettings
from flame.filters.mag1c import score as mag1c_score
from flame.filters.mag1c_sas import sample_of, score
from flame.filters.pixels import Pixels


def line_of(count: int, bands: int) -> Pixels:
    spectra = np.repeat(np.arange(count, dtype=np.float32)[None], bands, axis=0)
    return Pixels(spectra, np.ones(count, dtype=bool), (1, count))


@pytest.mark.parametrize(
    ("count", "share", "size", "step"),
    [
        (262_144, 0.01, 2621, 100),
        (40_000, 0.01, 400, 100),
        (4096, 0.01, 360, 11),
        (500, 0.01, 360, 1),
        (50, 0.01, 50, 1),
    ],
)
def test_sample_has_the_peers_stride_but_never_fewer_than_five_pixels_a_band(count, share, size, step):
    sample = sample_of(line_of(count, 72), share)
    np.testing.assert_array_equal(sample.spectra[0], np.arange(0, count, step)[:size])


def test_sample_skips_invalid_pixels():
    pixels = line_of(1000, 2)
    sample = sample_of(pixels.restricted(np.arange(1000) >= 500), 0.1)
    np.testing.assert_array_equal(sample.spectra[0], np.arange(500, 1000, 10))


def test_plume_agrees_with_full_mag1c():
    tile = simulated_tile(seed=4, size=192)
    plume = tile.enhancement_ppm_m > 1500
    assert score(*tile.inputs)[plume].mean() == pytest.approx(mag1c_score(*tile.inputs)[plume].mean(), rel=0.05)


def test_settings_refuse_nonsense():
    with pytest.raises(FilterError, match="sample_share"):
        Mag1cSasSettings(sample_share=0.0)
    with pytest.raises(FilterError, match="column_group"):
        Mag1cSasSettings(mag1c=Mag1cSettings(column_group=5))
