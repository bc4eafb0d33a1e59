"""A model is what its manifest says, or it is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from flame.onboard import Detector, Manifest, ModelError, choose_model, load_model, sha256_of, write_package
from flame.onboard import manifest as manifest_module
from flame.onboard import package as package_module
from flame.onboard.package import fitting_bands
from flame.physics import BandMismatchError, BandSet
from tiny_models import BANDS, filter_model, manifest, plume_scene


def test_what_was_written_is_what_is_loaded(tmp_path):
    model = filter_model()
    path = write_package(model, tmp_path / "deep" / "tiny")
    loaded = load_model(path)
    assert loaded.manifest == model.manifest
    assert loaded.onnx == model.onnx
    assert sorted(p.name for p in path.parent.iterdir()) == ["tiny.json", "tiny.onnx"]


def test_one_flipped_bit_is_refused(tmp_path):
    model = filter_model()
    path = write_package(model, tmp_path / "tiny.onnx")
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ModelError, match=r"SHA-256 is .* damaged"):
        load_model(path)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ModelError, match=r"no model at .*nowhere.onnx"):
        load_model(tmp_path / "nowhere.onnx")
    (tmp_path / "alone.onnx").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"no manifest at .*alone.json"):
        load_model(tmp_path / "alone.onnx")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99"),
        ({"unit": "W m-2"}, "radiance unit"),
        ({"inputs": ("radiance",)}, "must be among"),
        ({"inputs": ("log_radiance", "pixel_fields")}, "takes pixel_fields but the manifest does not say how"),
        ({"inputs": ("log_radiance", "log_radiance")}, "twice"),
        ({"absorption": (0.0,)}, "1 absorption values for 4 bands"),
        ({"absorption": (0.0, 1.0, float("nan"), 0.0)}, "absorption must be a list of 1 to 4096 finite numbers"),
        ({"threshold": 1.5}, "threshold must be a number from 0 to 1"),
        ({"threshold": float("nan")}, "threshold must be a number"),
        ({"tau_ppm_m": 1e308}, "tau_ppm_m must be a number"),
        ({"tile": 10**400}, "tile must be a whole number"),
        ({"row_block": 7}, "blocks of 7 rows do not fill a tile of 32"),
        ({"row_block": 0}, "blocks of 0 rows"),
    ],
)
def test_manifests_that_cannot_be_right_cannot_be_made(change, message):
    with pytest.raises(ModelError, match=message):
        manifest(b"", **change)


def test_manifest_files_with_odd_entries_are_refused_by_name():
    entries = json.loads(manifest(b"").to_json())
    with pytest.raises(ModelError, match="unknown entries surprise"):
        Manifest.from_json(_signed(entries | {"surprise": 1}))
    del entries["tile"]
    with pytest.raises(ModelError, match="'tile' is missing"):
        Manifest.from_json(_signed(entries))
    for broken in ("{", "[" * 100_000, '{"tile": NaN}', '{"tile": 1e999}', '{"tile": Infinity}'):
        with pytest.raises(ModelError, match="not JSON"):
            Manifest.from_json(broken)
    with pytest.raises(ModelError, match="one JSON object"):
        Manifest.from_json("[]")
    with pytest.raises(ModelError, match=r"old\.json: manifest format 1 is not known, expected 2; export"):
        Manifest.from_json(json.dumps(entries | {"format": 1}), "old.json")


def _signed(entries):
    """A manifest whose checksum is right, whatever else is not."""
    kept = {name: value for name, value in entries.items() if name != "checksum"}
    return json.dumps({"checksum": manifest_module._checksum(kept)} | kept)


def test_no_flipped_bit_of_a_manifest_changes_what_it_says():
    text = load_model().manifest.to_json()
    said = Manifest.from_json(text)
    rng = np.random.default_rng(0)
    refused = 0
    for place, bit in zip(rng.integers(0, len(text), 2000), rng.integers(0, 7, 2000), strict=True):
        damaged = text[:place] + chr(ord(text[place]) ^ (1 << int(bit))) + text[place + 1 :]
        try:
            assert Manifest.from_json(damaged) == said
        except ModelError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    "change",
    [
        {"prepare": {"pixel_fields": ["noise", "noise"]}},
        {"prepare": {"pixels": {"floor_share": 1e308}}},
        {"prepare": {"background": {"samples": -1}}},
        {"prepare": 3},
        {"network": {"sha256": "", "tau_max": 0}},
        {"band_centres_nm": "abcd"},
        {"band_centres_nm": [2300.0, 2200.0, 2250.0, 2350.0]},
        {"training": 1},
        {"opening": "yes"},
        {"tile": None},
        {"tile": 32.0},
        {"row_block": 2.0},
        {"name": 3},
    ],
)
def test_signed_manifests_that_cannot_be_right_are_refused_all_the_same(change):
    entries = json.loads(manifest(b"").to_json())
    with pytest.raises(ModelError):
        Manifest.from_json(_signed(entries | change))


def test_a_batchs_model_is_read_and_hashed_once_until_its_files_change(tmp_path, monkeypatch):
    path = write_package(filter_model(), tmp_path / "tiny.onnx")
    hashed = []
    monkeypatch.setattr(package_module, "sha256_of", lambda content: hashed.append(1) or sha256_of(content))
    assert choose_model(path, BANDS) is choose_model(path, BANDS)
    assert len(hashed) == 1
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelError, match="SHA-256"):
        choose_model(path, BANDS)


def test_choosing_among_a_family_reads_only_the_model_that_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(package_module, "_folder", lambda: tmp_path)
    model = filter_model()
    far = tuple(c + 20 for c in model.manifest.band_centres_nm)
    other = write_package(
        replace(model, manifest=manifest(model.onnx, band_centres_nm=far)), tmp_path / "flame-plus-aviris-ng"
    )
    other.write_bytes(b"never read")
    write_package(model, tmp_path / "flame-plus-emit")
    assert choose_model(None, BANDS) is choose_model(None, BANDS)


def test_figures_that_are_undefined_become_null():
    written = manifest(b"", metrics={"f1": float("nan"), "by": [float("inf"), 1.0]}).to_json()
    assert json.loads(written)["metrics"] == {"f1": None, "by": [None, 1.0]}


def test_a_graph_that_is_not_the_manifests_is_refused():
    model = filter_model()
    other = type(model)(manifest(model.onnx, inputs=("log_radiance", "rgb")), model.onnx, "tiny.onnx")
    for runtime in ("onnxruntime", "openvino"):
        with pytest.raises(ModelError, match=r"tiny.onnx: the graph has inputs"):
            Detector(other, runtime=runtime)
    with pytest.raises(ModelError, match="no runtime 'magic'"):
        Detector(model, runtime="magic")
    broken = type(model)(manifest(b"not a graph"), b"not a graph", "junk.onnx")
    for runtime in ("onnxruntime", "openvino"):
        with pytest.raises(ModelError, match=r"junk.onnx: .* cannot load"):
            Detector(broken, runtime=runtime)


def test_scenes_with_other_bands_are_refused_with_both_lists():
    scene, _ = plume_scene(40, 40)
    shifted = BandSet(BANDS.centres_nm + 3.0, BANDS.fwhm_nm)
    wrong = type(scene)(scene.radiance, shifted, scene.valid)
    with pytest.raises(BandMismatchError) as refused:
        Detector(filter_model()).run(wrong)
    assert "2200.0" in str(refused.value)
    assert "2203.0" in str(refused.value)


def test_bands_are_found_among_others():
    more = BandSet(np.array([550.0, 2200.3, 2249.5, 2280.0, 2300.0, 2350.9]), np.full(6, 6.0))
    assert fitting_bands(more, BANDS) == [1, 2, 4, 5]
    assert fitting_bands(more.select(more.centres_nm < 2310), BANDS) is None


def test_a_packaged_family_is_searched_for_the_scenes_bands(tmp_path, monkeypatch):
    monkeypatch.setattr(package_module, "_folder", lambda: tmp_path)
    model = filter_model()
    far = tuple(c + 20 for c in model.manifest.band_centres_nm)
    write_package(replace(model, manifest=manifest(model.onnx, band_centres_nm=far)), tmp_path / "flame-plus-aviris-ng")
    write_package(model, tmp_path / "flame-plus-emit")
    assert choose_model("flame-plus", BANDS).manifest == model.manifest
    assert load_model().manifest.band_centres_nm == load_model("flame-plus").manifest.band_centres_nm == far
    assert choose_model("flame-plus-emit", BANDS).manifest == model.manifest
    with pytest.raises(
        BandMismatchError, match=r"expected 4 bands 2200\.0.*\n.*\n.*\n  flame-plus-emit.*\n  flame-plus-av"
    ):
        choose_model(None, BandSet(BANDS.centres_nm + 50, BANDS.fwhm_nm))
