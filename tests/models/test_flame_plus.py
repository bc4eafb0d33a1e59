"""The second flame-plus: what it starts as, what it must not depend on, and its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from flame.errors import FlameError
from flame.models.plus import LEVELS_PPM_M, FlamePlus, PlaneBatch, PlusSettings, SpectralBatch
from flame.models.plus.weights import load_plus, save_plus
from flame.models.settings import ModelSettingsError
from flame.physics import sensor
from flame.prepare.planes import FIELD_NAMES, band_weights
from flame.prepare.planes.wavelengths import WINDOWS_NM

SMALL = PlusSettings(functions=5, width=8, hidden=8)


def planes_of(tiles: int, rows: int, cols: int, functions: int = 5, seed: int = 0) -> PlaneBatch:
    """Random planes."""
    torch.manual_seed(seed)
    return PlaneBatch(
        torch.randn(tiles, functions, rows, cols),
        torch.randn(tiles, len(FIELD_NAMES), rows, cols),
        torch.randn(tiles, len(WINDOWS_NM), rows, cols),
        300.0 * torch.randn(tiles, rows, cols),
        100.0 + 50.0 * torch.rand(tiles, rows, cols),
    )


def spectra_of(name: str) -> SpectralBatch:
    """Random spectra of a sensor."""
    bands = sensor(name).bands.methane()
    torch.manual_seed(1)
    return SpectralBatch(
        0.1 * torch.randn(2, len(bands), 16, 24),
        1.0 + torch.rand(2, 16, 24),
        1e-5 * torch.rand(2, len(bands)),
        1e-5 * torch.rand(2, len(bands)),
        torch.from_numpy(band_weights(bands)).float(),
    )


def test_the_score_starts_as_the_filter() -> None:
    planes = planes_of(2, 16, 24)
    out = FlamePlus(SMALL).eval()(planes)
    assert torch.allclose(out.score_sigma, planes.estimate_ppm_m / planes.sigma_ppm_m, atol=1e-4)


@pytest.mark.parametrize(("rows", "cols"), [(16, 16), (17, 23), (40, 8)])
def test_any_size(rows: int, cols: int) -> None:
    out = FlamePlus(SMALL).eval()(planes_of(1, rows, cols))
    assert out.level_logits.shape == (1, len(LEVELS_PPM_M), rows, cols)
    assert out.outline_logit.shape == out.median.shape == out.log_spread.shape == (1, rows, cols)


@pytest.mark.parametrize("name", ["aviris-ng", "emit", "enmap", "prisma"])
def test_the_same_functions_serve_every_sensor(name: str) -> None:
    spectra = spectra_of(name)
    values = FlamePlus(SMALL).spectral(spectra)
    assert values.shape == (2, 5, 16, 24)
    assert torch.isfinite(values).all()


def test_every_weight_learns() -> None:
    model = FlamePlus(SMALL)
    planes = planes_of(2, 16, 16)
    with torch.no_grad():  # off their start, where heads of zero weight pass nothing on
        model.weight_head.weight.normal_()
        model.background_head.weight.normal_()
    spectral = model.spectral(spectra_of("emit"))[:, :, :16, :16]
    out = model(PlaneBatch(spectral, planes.fields, planes.windows, planes.estimate_ppm_m, planes.sigma_ppm_m))
    total = out.level_logits.sum() + out.outline_logit.sum() + out.median.square().sum() + out.log_spread.sum()
    total.backward()
    still = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not still


@pytest.mark.parametrize(
    "changes",
    [{"functions": 0}, {"fields": False}, {"score": False}],
    ids=["fields alone", "spectrum alone", "no score"],
)
def test_ablations_run(changes: dict[str, object]) -> None:
    settings = PlusSettings(**{"functions": 5, "width": 8, "hidden": 8, **changes})
    out = FlamePlus(settings).eval()(planes_of(1, 16, 16, settings.functions))
    assert torch.isfinite(out.level_logits).all()


def test_functions_hidden_for_good_are_functions_that_say_nothing() -> None:
    torch.manual_seed(2)
    model = FlamePlus(SMALL).eval()
    planes = planes_of(1, 16, 16)
    hidden = model.without_functions()
    assert hidden.settings == replace(SMALL, functions=0)
    with torch.no_grad():
        expected = model(replace(planes, spectral=torch.zeros_like(planes.spectral)))
        told = hidden(replace(planes, spectral=planes.spectral[:, :0]))
        assert not torch.allclose(model(planes).level_logits, expected.level_logits)
    assert torch.allclose(told.level_logits, expected.level_logits, atol=1e-6)
    assert torch.allclose(told.median, expected.median, atol=1e-6)


def test_a_network_of_nothing_is_refused() -> None:
    with pytest.raises(ModelSettingsError, match="fields, functions"):
        PlusSettings(functions=0, fields=False)


def test_its_file_gives_it_back(tmp_path: Path) -> None:
    model = FlamePlus(SMALL, np.diag(np.linspace(1, 2, 101))).eval()
    save_plus(tmp_path / "model.safetensors", SMALL, model.state_dict(), {"seed": 3})
    stored = load_plus(tmp_path)
    planes = planes_of(1, 16, 16)
    assert stored.facts == {"seed": 3}
    assert torch.equal(stored.model(planes).level_logits, model(planes).level_logits)


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", b"\xff" * 100])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(FlameError, match=r"model\.safetensors"):
        load_plus(path)


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlameError, match="no such file"):
        load_plus(tmp_path / "nothing")
