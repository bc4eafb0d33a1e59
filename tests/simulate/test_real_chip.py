"""tools/make_real_chip.py on a file in the layout of the ABU scenes, made here from a known radiance."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from flame.io import read_scene
from flame.physics import sensor

TOOL = Path(__file__).parents[2] / "tools" / "make_real_chip.py"
SPECTROMETERS_NM = (np.arange(400.0, 1340.0, 9.7), np.arange(1450.0, 1790.0, 9.9), np.arange(1970.0, 2500.0, 10.0))
CENTRES_NM = np.concatenate(SPECTROMETERS_NM)


def radiance_of(nm):
    return 12.0 * np.exp(-nm / 700.0)


def make(tmp_path, cube, centres=CENTRES_NM):
    savemat(tmp_path / "abu-airport-2.mat", {"data": cube, "map": np.zeros(cube.shape[:2])})
    np.savetxt(tmp_path / "centres.txt", centres)
    command = [sys.executable, str(TOOL), "abu-airport-2.mat", "airport_2.npz", "--centres", "centres.txt"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)


@pytest.fixture
def stored():
    """What AVIRIS stores: radiance times a gain that differs between its spectrometers, as whole numbers."""
    gain = np.where(CENTRES_NM < 1000, 300.0, np.where(CENTRES_NM < 1800, 600.0, 1200.0))
    brightness = np.linspace(0.5, 1.5, 12 * 10).reshape(12, 10, 1)
    return np.round(brightness * radiance_of(CENTRES_NM) * gain).astype(np.int16)


def test_a_matlab_scene_becomes_a_chip_that_flame_reads(tmp_path, stored):
    made = make(tmp_path, stored)
    assert made.returncode == 0, made.stderr
    scene = read_scene(tmp_path / "airport_2.npz")
    bands = sensor("aviris-ng").bands.methane()
    assert scene.bands.matches(bands)
    assert scene.shape == (12, 10)
    expected = np.linspace(0.5, 1.5, 120).reshape(1, 12, 10) * radiance_of(bands.centres_nm)[:, None, None]
    np.testing.assert_allclose(scene.radiance, expected, rtol=0.02)
    red = 0.5 * radiance_of(640.0)
    assert scene.rgb[0, 0, 0] == pytest.approx(red, rel=0.02)


def test_what_does_not_fit_is_named(tmp_path, stored):
    fewer = make(tmp_path, stored, CENTRES_NM[:-1]).stderr
    assert f"{CENTRES_NM.size} bands, but {CENTRES_NM.size - 1} centres" in fewer
    short = CENTRES_NM < 2300.0
    assert "do not span" in make(tmp_path, stored[..., short], CENTRES_NM[short]).stderr
    assert "no cube named 'data'" in make(tmp_path, stored[..., 0]).stderr
    assert not (tmp_path / "airport_2.npz").exists()
