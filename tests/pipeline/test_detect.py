"""Scene files in, maps and plumes out; what fails is reported and stops nothing else."""

import json

import numpy as np
import pytest
import rasterio
from typer.testing import CliRunner

from flame.cli.app import app
from flame.onboard import Quality, write_package
from flame.onboard.downlink import decode_all
from flame.pipeline.demo import run_demo
from flame.pipeline.detect import Detectors, detect_files, output_names
from tiny_models import CENTRES_NM, plume_scene, whitening_model


@pytest.fixture
def model(tmp_path):
    package = whitening_model()
    return str(write_package(package, tmp_path / "model" / "tiny.onnx"))


def _chip(path, boxes=((8, 8, 14, 14),), centres=CENTRES_NM, seed=0):
    scene, mask = plume_scene(64, 80, boxes, seed)
    path.parent.mkdir(exist_ok=True)
    np.savez(path, radiance=scene.radiance, wavelength_nm=np.array(centres), fwhm_nm=np.full(4, 6.0))
    return path, mask


def test_every_product_says_the_same(model, tmp_path):
    chip, mask = _chip(tmp_path / "a" / "flight.npz")
    (outcome,) = detect_files([chip], tmp_path / "out", Detectors(model))
    folder = tmp_path / "out" / "flight"
    assert sorted(p.name for p in folder.iterdir()) == [
        "detection.json",
        "mask.tif",
        "plumes.geojson",
        "probability.tif",
        "quicklook.png",
        "score.tif",
    ]
    with rasterio.open(folder / "mask.tif") as file:
        np.testing.assert_array_equal(file.read(1), mask)
    with rasterio.open(folder / "score.tif") as file:
        np.testing.assert_array_equal(file.read(1), outcome.detection.score_ppm_m)
    features = json.loads((folder / "plumes.geojson").read_text())["features"]
    assert [f["properties"]["area_px"] for f in features] == [mask.sum()]
    assert features[0]["properties"]["model"] == "tiny for aviris-ng"
    facts = json.loads((folder / "detection.json").read_text())
    assert (facts["plumes"], facts["plume_pixels"], facts["quality"]) == (1, mask.sum(), [])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "1 plume in 1 scene." in page
    assert "flight.npz" in page


def test_quality_flags_reach_the_facts(model, tmp_path):
    chip, _ = _chip(tmp_path / "a.npz")
    arrays = dict(np.load(chip))
    arrays["radiance"][:, :5] = np.nan
    np.savez(chip, **arrays)
    (outcome,) = detect_files([chip], tmp_path / "out", Detectors(model))
    assert Quality.INVALID in outcome.detection.flags
    assert "invalid" in json.loads((tmp_path / "out" / "a" / "detection.json").read_text())["quality"]


def test_some_inputs_may_fail_and_the_rest_are_done(model, tmp_path):
    good, _ = _chip(tmp_path / "good.npz")
    other_bands, _ = _chip(tmp_path / "shifted.npz", centres=np.array(CENTRES_NM) + 5)
    inputs = [str(good), str(other_bands), str(tmp_path / "[missing].npz")]
    result = CliRunner().invoke(app, ["detect", *inputs, "--out", str(tmp_path / "out"), "--model", model])
    assert result.exit_code == 3, result.output
    assert "1 of 3 inputs done" in result.output
    assert "do not fit" in result.output
    assert "[missing]" in result.output
    assert (tmp_path / "out" / "good" / "plumes.geojson").exists()
    assert "2 inputs failed" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(("names", "code"), [(["good.npz"], 0), (["absent.npz"], 1)])
def test_exit_codes(names, code, model, tmp_path):
    _chip(tmp_path / "good.npz")
    inputs = [str(tmp_path / name) for name in names]
    result = CliRunner().invoke(app, ["detect", *inputs, "--out", str(tmp_path / "out"), "--model", model])
    assert result.exit_code == code, result.output


def test_packets_come_with_the_products_if_asked(model, tmp_path):
    _chip(tmp_path / "a.npz")
    options = ["--out", str(tmp_path / "out"), "--model", model, "--downlink"]
    result = CliRunner().invoke(app, ["detect", str(tmp_path / "a.npz"), *options])
    assert result.exit_code == 0, result.output
    (packet,), lost = decode_all((tmp_path / "out" / "a" / "downlink.bin").read_bytes())
    assert (packet.first_row, packet.first_col, lost) == (8, 8, 0)
    assert "times less" in result.output


def test_inputs_of_one_name_get_folders_of_their_own(tmp_path):
    paths = [tmp_path / "a" / "x.npz", tmp_path / "b" / "x.npz", tmp_path / "c" / "x.hdr", tmp_path / "y"]
    assert output_names(paths) == ["x", "x-2", "x-3", "y"]


def test_the_demo_compares_with_the_truth(tmp_path):
    from flame.physics import sensor, unit_absorption

    bands = sensor("aviris-ng").bands.methane()
    package = whitening_model(64, bands, unit_absorption(bands).copy())
    path = write_package(package, tmp_path / "mf.onnx")
    lines = []
    result = run_demo(tmp_path / "out", Detectors(str(path)), size=64, seed=3, told=lines.append)
    counts = result.counts
    assert counts.tp + counts.fp + counts.fn + counts.tn <= 64 * 64
    assert result.true_plumes >= 1
    assert result.found_plumes <= result.true_plumes
    assert result.false_plumes <= len(result.detection.plumes)
    assert (result.found_plumes > 0) == (counts.tp > 0)
    assert set(result.seconds) == {"load model", "simulate", "detect", "write products"}
    assert len(lines) == 3
    geometry = json.loads((tmp_path / "out" / "plumes.geojson").read_text())["features"]
    assert all(f["geometry"]["type"].endswith("Polygon") for f in geometry)
    assert "FLAME demonstration" in result.report.read_text()
