"""What it is worth to give each group of columns the absorption of its own wavelengths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from flame.filters import filter_named, filter_scene
from flame.physics import BandSet, ColumnBands, clear_sky_radiance, sensor, transmittance
from flame.scene import Scene

ROWS, COLS, SPREAD_NM, GROUP = 200, 240, 4.0, 24


def smiling_scene(seed: int = 0) -> tuple[Scene, np.ndarray]:
    """Ground, air and one round plume in every group of columns, seen by a PRISMA whose columns differ by 4 nm."""
    rng = np.random.default_rng(seed)
    nominal = sensor("prisma").bands.methane()
    shift = SPREAD_NM * (np.linspace(-1, 1, COLS) ** 2 - 0.5)
    centres = nominal.centres_nm[:, None] + shift
    smile = ColumnBands(centres, np.repeat(nominal.fwhm_nm[:, None], COLS, axis=1))
    albedo = 0.3 * np.exp(0.25 * ndimage.gaussian_filter(rng.standard_normal((ROWS, COLS)), 2) * 4)
    down, across = np.indices((ROWS, COLS))
    centre = (np.arange(COLS // GROUP) + 0.5) * GROUP
    column = 3000.0 * np.exp(-0.5 * (((across[..., None] - centre) ** 2 + (down[..., None] - 80) ** 2) / 9.0)).max(-1)
    column[column < 10] = 0
    radiance = np.empty((len(nominal), ROWS, COLS), np.float32)
    for col in range(COLS):
        bands = BandSet(centres[:, col], nominal.fwhm_nm)
        seen = transmittance(column[:, col], bands) * clear_sky_radiance(bands)[:, None]
        radiance[:, :, col] = seen * albedo[:, col]
    radiance *= 1 + rng.standard_normal(radiance.shape, dtype=np.float32) / 1000
    valid = np.ones((ROWS, COLS), bool)
    return Scene(radiance, nominal, valid, smile=smile), column


@pytest.fixture(scope="module")
def smiling() -> tuple[Scene, np.ndarray]:
    return smiling_scene()


def slopes(score: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The score of each plume in units of the truth."""
    answer = []
    for first in range(0, COLS, GROUP):
        part = slice(first, first + GROUP)
        strong = column[:, part] > 1000
        truth = column[:, part][strong]
        answer.append(float((score[:, part][strong] * truth).sum() / (truth**2).sum()))
    return np.array(answer)


@pytest.mark.parametrize(("name", "saved"), [("log-mf", 0.5), ("mag1c", 0.8)])
def test_own_wavelengths_make_plumes_equal_across_the_columns(
    smiling: tuple[Scene, np.ndarray], name: str, saved: float
) -> None:
    """Ten equal plumes, from edge to edge: with one absorption for all columns some look stronger than others.

    A filter with a full covariance learns most of the smile by itself, so that MAG1C, which also takes its plumes out
    of the background, is left with little to gain.
    """
    scene, column = smiling
    blind = slopes(filter_scene(filter_named(name), scene, smile_nm=None), column)
    seeing = slopes(filter_scene(filter_named(name), scene), column)
    assert seeing.std() < saved * blind.std()
    assert np.abs(seeing - seeing.mean()).max() < np.abs(blind - blind.mean()).max()


def test_without_smile_nothing_changes(smiling: tuple[Scene, np.ndarray]) -> None:
    scene, _ = smiling
    flat = Scene(scene.radiance, scene.bands, scene.valid)
    method = filter_named("mf")
    np.testing.assert_array_equal(filter_scene(method, flat), method.score(scene.radiance, scene.bands, scene.valid))
