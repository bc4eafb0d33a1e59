"""MAG1C is the same algorithm as `acrwl1mf` of the package mag1c (Foote et al. 2020), and gives the same numbers."""

import numpy as np
import pytest
import torch
from mag1c.mag1c import acrwl1mf

from filters.simulated_tile import SimulatedTile, simulated_tile
from flame.filters import BackgroundSettings, Mag1cSettings
from flame.filters.mag1c import score
from flame.physics import unit_absorption


@pytest.fixture(autouse=True)
def _torch_as_mag1c_needs_it(monkeypatch):
    """mag1c calls `torch.cholesky`, which torch has deprecated and will remove; `torch.linalg.cholesky` is the same.

    One thread, because several test processes with several threads each keep waiting for one another.
    """
    monkeypatch.setattr(torch, "cholesky", lambda a, upper=False: torch.linalg.cholesky(a), raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def peer(tile: SimulatedTile, columns: slice = slice(None), valid: np.ndarray | None = None, alpha: float = 0.0):
    """acrwl1mf in float64, as its command line runs it, on the valid pixels of some columns."""
    keep = (tile.valid if valid is None else valid)[:, columns]
    spectra = torch.tensor(tile.radiance[:, :, columns][:, keep].T[None].astype(np.float64))
    everything = torch.ones(spectra.shape[:2], dtype=torch.bool)
    template = torch.tensor(np.array(unit_absorption(tile.bands)))
    enhancement, _ = acrwl1mf(spectra, template, 30, False, False, False, 1.0, alpha, everything)
    out = np.zeros(keep.shape)
    out[keep] = enhancement.numpy().ravel()
    return out


def assert_same(ours: np.ndarray, theirs: np.ndarray) -> None:
    plume = theirs > 100
    assert plume.sum() > 100
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.999999
    difference = np.abs(ours - theirs)[plume] / theirs[plume]
    assert np.median(difference) < 1e-4
    assert np.quantile(difference, 0.99) < 1e-2


@pytest.mark.parametrize(("seed", "peak_ppm_m"), [(0, 800.0), (1, 3000.0), (2, 10_000.0)])
def test_whole_tile(seed, peak_ppm_m):
    tile = simulated_tile(seed, size=128, peak_ppm_m=peak_ppm_m)
    assert_same(score(*tile.inputs), peer(tile))


def test_emit_bands():
    tile = simulated_tile(3, size=96, sensor_name="emit")
    assert_same(score(*tile.inputs), peer(tile))


def test_diagonal_shrinkage():
    tile = simulated_tile(4, size=96)
    ours = score(*tile.inputs, Mag1cSettings(background=BackgroundSettings(shrinkage=1e-3)))
    assert_same(ours, peer(tile, alpha=1e-3))


def test_invalid_pixels():
    tile = simulated_tile(5, size=96)
    valid = np.random.default_rng(0).random(tile.valid.shape) > 0.2
    assert_same(score(tile.radiance, tile.bands, valid), peer(tile, valid=valid))


def test_column_groups():
    tile = simulated_tile(6, size=120)
    theirs = np.concatenate([peer(tile, slice(start, start + 30)) for start in range(0, 120, 30)], axis=1)
    assert_same(score(*tile.inputs, Mag1cSettings(column_group=30)), theirs)
