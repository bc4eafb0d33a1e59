"""Products over many scenes: merged plumes, other names, the collection, and a demonstration with its truth."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.onboard import Detectors, write_package
from flame.pipeline.batch_products import BatchScene, write_batch
from flame.pipeline.detect import detect_files
from tiny_models import CENTRES_NM, plume_scene, whitening_model


@pytest.fixture
def model(tmp_path):
    return str(write_package(whitening_model(), tmp_path / "model" / "tiny.onnx"))


@pytest.fixture
def quick(monkeypatch):
    """Pictures take most of the time of a small scene."""
    for name in ("plot_quicklook", "write_scene_page"):
        monkeypatch.setattr(f"flame.pipeline.scene_products.{name}", lambda path, *_: path.write_bytes(b"x"))


def _chip(path, boxes):
    scene, _ = plume_scene(64, 80, boxes, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, radiance=scene.radiance, wavelength_nm=np.array(CENTRES_NM), fwhm_nm=np.full(4, 6.0))
    return path


def test_the_plumes_of_all_scenes_are_in_one_file(model, quick, tmp_path):
    one = _chip(tmp_path / "a.npz", ((8, 8, 14, 14),))
    two = _chip(tmp_path / "b.npz", ((8, 8, 14, 14), (30, 30, 40, 40)))
    out = tmp_path / "out"
    detect_files([one, tmp_path / "absent.npz", two], out, Detectors(model), fields=("emit",))
    merged = json.loads((out / "plumes.geojson").read_text())["features"]
    ids = [feature["properties"]["plume_id"] for feature in merged]
    assert ids == ["a-A", "b-A", "b-B"]
    alone = json.loads((out / "b" / "plumes.geojson").read_text())["features"]
    assert merged[1:] == alone
    with (out / "plumes.csv").open(newline="") as file:
        assert [row["plume_id"] for row in csv.DictReader(file)] == ids
    emit = json.loads((out / "plumes_emit.geojson").read_text())["features"]
    assert [feature["properties"]["Plume ID"] for feature in emit] == ids
    assert (out / "a" / "plumes_emit.csv").read_text().startswith("Plume ID,DAAC Scene Names,")
    page = (out / "report.html").read_text()
    assert "3 plumes in 2 scenes; 1 input failed." in page
    assert 'href="./b/report.html"' in page
    assert "absent.npz" in page


def test_other_fields_are_work_to_do_again(model, quick, tmp_path):
    chip = _chip(tmp_path / "a.npz", ((8, 8, 14, 14),))
    states = [
        detect_files([chip], tmp_path / "out", Detectors(model), fields=fields)[0].state
        for fields in ((), (), ("emit",), ("emit",))
    ]
    assert states == ["done", "kept", "done", "kept"]
    places = [tmp_path / "out", tmp_path / "out" / "a"]
    assert all((place / "plumes_emit.csv").is_file() for place in places)
    detect_files([chip], tmp_path / "out", Detectors(model), fields=("carbonmapper",))
    assert not any(list(place.glob("plumes_emit.*")) for place in places)  # they would tell of an earlier run


def test_packets_of_an_earlier_run_do_not_stay_beside_other_plumes(model, quick, tmp_path):
    chip = _chip(tmp_path / "a.npz", ((8, 8, 14, 14),))
    packets = tmp_path / "out" / "a" / "downlink.bin"
    detect_files([chip], tmp_path / "out", Detectors(model), downlink=True)
    assert packets.is_file()
    _chip(tmp_path / "a.npz", ((30, 30, 40, 40),))
    detect_files([chip], tmp_path / "out", Detectors(model))
    assert not packets.exists()


def _plume_ids(out):
    return [
        feature["properties"]["plume_id"] for feature in json.loads((out / "plumes.geojson").read_text())["features"]
    ]


def test_inputs_of_one_content_are_one_scene_in_the_products_over_all(model, quick, tmp_path):
    """A copy of a file in another folder has the same products: its plumes must not count twice."""
    one, copy = (_chip(tmp_path / folder / "x.npz", ((8, 8, 14, 14),)) for folder in "ab")
    out = tmp_path / "out"
    outcomes = detect_files([one, copy], out, Detectors(model))
    assert [outcome.state for outcome in outcomes] == ["done", "kept"]
    assert _plume_ids(out) == ["x-A"]
    page = (out / "report.html").read_text()
    assert "1 plume in 1 scene." in page
    assert page.count('href="./x/report.html">x.npz') == 1


def test_the_report_tells_of_earlier_inputs_too_even_if_it_is_stopped(model, quick, tmp_path):
    one, two = (_chip(tmp_path / f"{name}.npz", ((8, 8, 14, 14),)) for name in "ab")
    out = tmp_path / "out"
    first = detect_files([one], out, Detectors(model))

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        detect_files([two], out, Detectors(model), stop, earlier=first)
    assert _plume_ids(out) == ["a-A", "b-A"]
    detect_files([one], out, Detectors(model), earlier=first)  # given again: told once
    assert _plume_ids(out) == ["a-A"]


def test_unknown_fields_are_refused_before_the_work(model, tmp_path):
    result = CliRunner().invoke(app, ["detect", "x.npz", "--out", str(tmp_path), "--model", model, "--fields", "mars"])
    assert "no field names 'mars'; known are emit, carbonmapper" in str(result.exception)


def test_what_is_damaged_is_told_and_stops_nothing(model, quick, tmp_path):
    chips = [_chip(tmp_path / f"{name}.npz", ((8, 8, 14, 14),)) for name in "abc"]
    out = tmp_path / "out"
    outcomes = detect_files(chips, out, Detectors(model))
    (out / "a" / "plumes.geojson").write_text("{")
    (out / "b" / "item.json").write_text('{"properties": 3}')
    write_batch(out, [BatchScene(outcome.source, outcome.folder, outcome.failure) for outcome in outcomes])
    assert len(json.loads((out / "plumes.geojson").read_text())["features"]) == 2
    page = (out / "report.html").read_text()
    assert "a/plumes.geojson: not JSON" in page
    assert not (out / "collection.json").exists()


def test_no_scene_takes_the_name_of_a_batch_file(model, quick, tmp_path):
    chip = _chip(tmp_path / "plumes.csv.npz", ((8, 8, 14, 14),))
    (outcome,) = detect_files([chip], tmp_path / "out", Detectors(model))
    assert outcome.folder.name == "plumes.csv-2"
    assert (tmp_path / "out" / "plumes.csv").is_file()


def test_the_demonstration_tells_the_truth_of_each_plume():
    from dataclasses import replace

    from flame.onboard import Detection, Timings
    from flame.pipeline.demo import demo_tile
    from flame.pipeline.demo_truth import compare_with_truth, sources_found, true_wind
    from flame.pipeline.measure import MeasureSettings, measure_scene
    from flame.pipeline.scene_products import SceneTruth

    tile = demo_tile(64, 3, "aviris-ng")
    false_one = np.zeros_like(tile.label)
    rows, cols = np.nonzero(~tile.label & tile.scene.valid)
    far = np.argmax(np.hypot(rows - tile.sources[0].row, cols - tile.sources[0].col))
    false_one[rows[far] : rows[far] + 2, cols[far] : cols[far] + 2] = True
    mask = tile.label | (false_one & tile.scene.valid)
    quality, sigma = np.zeros(mask.shape, np.uint8), np.full(mask.shape, 100.0, np.float32)
    maps = mask.astype(np.float32), tile.enhancement_ppm_m, mask, tile.scene.valid, quality
    told_by = {"estimate_ppm_m": tile.enhancement_ppm_m, "estimate_sigma_ppm_m": sigma}
    found = Detection(*maps, plumes=(), tiles=(), timings=Timings(), runtime="none", sigma_ppm_m=sigma, **told_by)
    measured = measure_scene(tile.scene, found, "demo", MeasureSettings(true_wind(tile), check=False))
    truth = compare_with_truth(tile, measured.plumes)
    assert isinstance(truth, SceneTruth)
    told = [(known.kg_h > 0, "false" in known.words) for known in truth.plumes]
    assert sorted(told) == [(False, True), *[(True, False)] * (len(told) - 1)]
    total = sum(source.emission_kg_h for source in tile.sources)
    assert max(known.kg_h for known in truth.plumes) <= total * (1 + 1e-9)
    assert len(truth.sources) == len(tile.sources)
    of_source = sources_found(tile, measured.plumes)
    for known, record in zip(truth.plumes, measured.plumes, strict=True):
        pieces = {len(each.plumes) for each in of_source if record in each.plumes}
        assert ("is that of a piece" in known.words) == (max(pieces, default=1) > 1)
    assert sum(bool(each.plumes) for each in of_source) <= len(tile.sources)
    (wind,) = true_wind(tile)
    assert wind.speed_m_s == tile.sources[0].wind_m_s
    empty = replace(tile, sources=(), label=np.zeros_like(tile.label))
    assert true_wind(empty) == ()
    assert all("no source" in known.words for known in compare_with_truth(empty, measured.plumes).plumes)
