"""Scene files in, maps and plumes out; what fails is reported and stops nothing else."""

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import rasterio
from typer.testing import CliRunner

import flame.pipeline.detect as detect_module
import flame.pipeline.scene_work as work_module
from flame.cli.app import app
from flame.onboard import Detector, Detectors, ModelError, write_package
from flame.onboard.downlink import decode_all
from flame.pipeline.demo import demo_tile, run_demo
from flame.pipeline.detect import Outcome, detect_files
from flame.scene import Acquisition, SceneFile
from flame.scene.lazy import LinesRead
from tiny_models import CENTRES_NM, plume_scene, whitening_model

BATCH = ("plumes.csv", "plumes.geojson")
"""Files over all scenes beside the page; there is no STAC collection of scenes that do not tell their time."""


@pytest.fixture
def model(tmp_path):
    package = whitening_model()
    return str(write_package(package, tmp_path / "model" / "tiny.onnx"))


@pytest.fixture
def quick(monkeypatch):
    """Drawing takes most of the time of a small scene; where the picture is not asked about, it is a dot."""
    monkeypatch.setattr("flame.pipeline.scene_products.plot_quicklook", lambda path, *_: path.write_bytes(b"\x89PNG"))
    monkeypatch.setattr("flame.pipeline.scene_products.write_scene_page", lambda path, *_: path.write_text("page"))


def _chip(path, boxes=((8, 8, 14, 14),), centres=CENTRES_NM, seed=0):
    scene, mask = plume_scene(64, 80, boxes, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, radiance=scene.radiance, wavelength_nm=np.array(centres), fwhm_nm=np.full(4, 6.0))
    return path, mask


def test_every_product_says_the_same(model, tmp_path):
    chip, mask = _chip(tmp_path / "a" / "flight.npz")
    (outcome,) = detect_files([chip], tmp_path / "out", Detectors(model))
    assert (outcome.state, outcome.plumes, outcome.failure) == ("done", 1, None)
    folder = tmp_path / "out" / "flight"
    maps = ("enhancement", "mask", "probability", "quality", "sigma")
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        [
            *(f"{name}.{end}" for name in maps for end in ("qml", "tif")),
            *(
                "detection.json",
                "maps.nc",
                "plumes.csv",
                "plumes.geojson",
                "plumes.qml",
                "quicklook.png",
                "report.html",
            ),
        ]
    )
    with rasterio.open(folder / "mask.tif") as file:
        np.testing.assert_array_equal(file.read(1), mask)
    whole = Detector(model).run(plume_scene(64, 80, ((8, 8, 14, 14),), 0)[0])
    with rasterio.open(folder / "probability.tif") as file:
        np.testing.assert_array_equal(file.read(1), whole.probability)
    features = json.loads((folder / "plumes.geojson").read_text())["features"]
    assert [f["properties"]["area_px"] for f in features] == [mask.sum()]
    assert features[0]["properties"]["model"] == "tiny for aviris-ng"
    facts = json.loads((folder / "detection.json").read_text())
    assert (facts["plumes"], facts["plume_pixels"], facts["quality"]) == (1, mask.sum(), [])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "1 plume in 1 scene." in page
    assert "flight.npz" in page


def test_quality_flags_reach_the_facts(model, quick, tmp_path):
    chip, _ = _chip(tmp_path / "a.npz")
    arrays = dict(np.load(chip))
    arrays["radiance"][:, :5] = np.nan
    np.savez(chip, **arrays)
    detect_files([chip], tmp_path / "out", Detectors(model))
    assert "invalid" in json.loads((tmp_path / "out" / "a" / "detection.json").read_text())["quality"]


def test_some_inputs_may_fail_and_the_rest_are_done(model, quick, tmp_path):
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
def test_exit_codes(names, code, model, quick, tmp_path):
    _chip(tmp_path / "good.npz")
    inputs = [str(tmp_path / name) for name in names]
    result = CliRunner().invoke(app, ["detect", *inputs, "--out", str(tmp_path / "out"), "--model", model])
    assert result.exit_code == code, result.output


def test_packets_come_with_the_products_if_asked(model, quick, tmp_path):
    _chip(tmp_path / "a.npz")
    options = ["--out", str(tmp_path / "out"), "--model", model, "--downlink"]
    result = CliRunner().invoke(app, ["detect", str(tmp_path / "a.npz"), *options])
    assert result.exit_code == 0, result.output
    (packet,), lost = decode_all((tmp_path / "out" / "a" / "downlink.bin").read_bytes())
    assert (packet.first_row, packet.first_col, lost) == (8, 8, 0)
    assert "times less" in result.output


def _found(folder):
    return json.loads((folder / "detection.json").read_text())


def test_scenes_of_one_name_are_kept_apart_in_one_run_and_over_two(model, quick, tmp_path):
    first, _ = _chip(tmp_path / "a" / "x.npz")
    second, _ = _chip(tmp_path / "b" / "x.npz", ((8, 8, 14, 14), (30, 30, 40, 40)))
    third, _ = _chip(tmp_path / "c" / "x.npz", (), seed=3)
    out = tmp_path / "out"
    detect_files([first, second], out, Detectors(model))
    detect_files([third], out, Detectors(model))
    assert [_found(out / name)["plumes"] for name in ("x", "x-2", "x-3")] == [1, 2, 0]


def test_what_is_finished_is_kept_by_content_unless_forced(model, quick, tmp_path):
    chip, _ = _chip(tmp_path / "x.npz")
    out = tmp_path / "out"

    def run(path=chip, **options):
        (outcome,) = detect_files([path], out, Detectors(model), **options)
        return outcome

    assert run().state == "done"
    kept = run()
    assert (kept.state, kept.plumes, kept.folder) == ("kept", 1, out / "x")
    assert "1 plume in 1 scene" in (out / "report.html").read_text()
    assert run(force=True).state == "done"
    (tmp_path / "moved").mkdir()
    moved = chip.rename(tmp_path / "moved" / "x.npz")
    assert run(moved).state == "kept"  # the same content at another place
    assert run(moved, downlink=True).state == "done"  # packets were not there
    assert run(moved, downlink=True).downlink.packet_bytes == (out / "x" / "downlink.bin").stat().st_size
    (out / "x" / "mask.tif").unlink()
    assert run(moved).state == "done"
    _chip(moved, ((8, 8, 14, 14), (30, 30, 40, 40)))
    changed = run(moved)  # another content at the same place takes the folder over
    assert (changed.state, changed.plumes, changed.folder) == ("done", 2, out / "x")
    assert sorted(p.name for p in out.iterdir()) == ["plumes.csv", "plumes.geojson", "report.html", "x"]


def test_a_damaged_record_is_made_again(model, quick, tmp_path):
    chip, _ = _chip(tmp_path / "x.npz")
    out = tmp_path / "out"
    detect_files([chip], out, Detectors(model))
    for change in ({"plumes": "many"}, {"seconds": 3}, {"downlink": {"x": 1}}, {"input_sha256": None}):
        (out / "x" / "detection.json").write_text(json.dumps(_found(out / "x") | change))
        (outcome,) = detect_files([chip], out, Detectors(model))
        assert (outcome.state, outcome.folder) == ("done", out / "x")
    for content in ("{}", "[]", '{"features": [{"properties": {"mass_kg": "much"}, "geometry": null}]}'):
        (out / "x" / "plumes.geojson").write_text(content)
        detect_module.write_scene_report(out, [outcome])
        assert "run it again with --force" in (out / "report.html").read_text()


def test_an_unfinished_scene_is_done_again_in_its_own_folder(model, tmp_path, monkeypatch):
    chip, _ = _chip(tmp_path / "x.npz")
    out = tmp_path / "out"

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("flame.pipeline.scene_products.plot_quicklook", killed)
        with pytest.raises(KeyboardInterrupt):
            detect_files([chip], out, Detectors(model))
    assert _found(out / "x")["finished"] is False
    (outcome,) = detect_files([chip], out, Detectors(model))
    assert (outcome.state, outcome.folder) == ("done", out / "x")


ODD_NAMES = [
    "$\\frac{$.npz",
    "[a] [/x] [bold].npz",
    "two\nlines \x1b[31m.npz",
    "\udcff\udcfe.npz",
    "...npz",
    "report.html.npz",
    "<img src=x>.npz",
    "x" * 240 + ".npz",
    "ang20191399t999999_img.npz",
]


def test_odd_names_all_work(model, tmp_path):
    chips = [_chip(tmp_path / "in" / name)[0] for name in ODD_NAMES]
    out = tmp_path / "out"
    options = ["--out", str(out), "--model", model, "--downlink"]
    result = CliRunner().invoke(app, ["detect", *map(str, chips), *options])
    assert result.exit_code == 0, result.output
    assert "\x1b[31m" not in result.output
    assert "[a] [/x] [bold].npz: 1 plume," in result.output
    assert "\\udcff\\udcfe.npz: 1 plume," in result.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "model", "out"]
    assert len([p for p in out.iterdir() if p.is_dir()]) == len(ODD_NAMES)
    for folder in (p for p in out.iterdir() if p.is_dir()):
        assert _found(folder)["finished"] is True
        assert (folder / "quicklook.png").stat().st_size > 10_000
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"{len(ODD_NAMES)} plumes in {len(ODD_NAMES)} scenes." in page
    assert "<img src=x>" not in page


def test_nothing_is_written_outside_of_out(model, quick, tmp_path, monkeypatch):
    work = tmp_path / "data" / "inner"
    work.mkdir(parents=True)
    _chip(tmp_path / "data" / "x.npz")
    monkeypatch.chdir(work)
    result = CliRunner().invoke(app, ["detect", "..", "../x.npz", "--out", "out", "--model", model])
    assert result.exit_code == 0, result.output
    assert "1 of 1 inputs done" in result.output  # meant twice, done once
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.tif")) == [
        f"data/inner/out/x/{name}.tif" for name in ("enhancement", "mask", "probability", "quality", "sigma")
    ]
    assert [p.name for p in (tmp_path / "data").iterdir() if p.suffix != ".npz"] == ["inner"]


def _make_b_fail(monkeypatch, failure):
    real = work_module.open_scene

    def read(path, options):
        if Path(path).name == "b.npz":
            raise failure
        return real(path, options)

    monkeypatch.setattr(work_module, "open_scene", read)


@pytest.mark.parametrize("failure", [ZeroDivisionError("by [zero]\nand more"), MemoryError(), RecursionError("deep")])
def test_whatever_an_input_raises_the_others_are_done(failure, model, quick, tmp_path, monkeypatch):
    chips = [_chip(tmp_path / f"{name}.npz")[0] for name in "abc"]
    _make_b_fail(monkeypatch, failure)
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["detect", *map(str, chips), "--out", str(out), "--model", model])
    assert result.exit_code == 3, result.output
    kind = type(failure).__name__
    told = [line for line in result.output.splitlines() if line.startswith("error:")]
    assert len(told) == 1
    assert f"b.npz: unexpected {kind}" in told[0]
    assert "Traceback" not in result.output
    assert "Traceback" in (out / "failures.log").read_text()
    assert kind in (out / "report.html").read_text()
    assert sorted(p.name for p in out.iterdir()) == ["a", "c", "failures.log", *BATCH, "report.html"]


def test_ctrl_c_leaves_a_report_of_what_is_done(model, quick, tmp_path, monkeypatch):
    chips = [_chip(tmp_path / f"{name}.npz")[0] for name in "abc"]
    _make_b_fail(monkeypatch, KeyboardInterrupt())
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["detect", *map(str, chips), "--out", str(out), "--model", model])
    assert result.exit_code == 130, result.output
    assert "1 of 3 inputs done, stopped" in result.output
    page = (out / "report.html").read_text()
    assert "1 plume in 1 scene; 2 inputs failed." in page
    assert page.count("not tried") == 2
    assert sorted(p.name for p in out.iterdir()) == ["a", *BATCH, "report.html"]


@pytest.mark.parametrize("wrong", [False, True])
def test_the_file_of_a_scene_is_closed_when_its_turn_is_over(wrong, model, quick, tmp_path, monkeypatch):
    scene, _ = plume_scene(64, 80, ((8, 8, 14, 14),), 0)
    closed = []

    def read(rows):
        if wrong:
            raise ValueError("damaged")
        return LinesRead(scene.radiance[:, rows], None, np.zeros((rows.stop - rows.start, 80), np.uint16))

    file = SceneFile(scene.bands, scene.shape, read, Acquisition(), close=lambda: closed.append(True))
    monkeypatch.setattr("flame.pipeline.scene_work.open_scene", lambda *_: file)
    (outcome,) = detect_files([_chip(tmp_path / "a.npz")[0]], tmp_path / "out", Detectors(model))
    assert outcome.succeeded is not wrong
    assert closed == [True]


def test_mistakes_show_before_the_work(model, tmp_path, monkeypatch):
    chip, _ = _chip(tmp_path / "a.npz")
    monkeypatch.setattr(work_module, "open_scene", lambda *_: pytest.fail("work was begun"))
    (tmp_path / "file").write_text("")
    runner = CliRunner()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        result = runner.invoke(app, ["detect", str(chip), "--out", str(out), "--model", model])
        assert "cannot be written" in str(result.exception)
    with pytest.raises(ModelError, match="no runtime 'cuda'; known are"):
        Detectors(model, runtime="cuda")
    with pytest.raises(ModelError, match="no model at"):
        Detectors(str(tmp_path / "absent.onnx"))


def test_no_scene_is_held_longer_than_its_own_turn(model, quick, tmp_path, monkeypatch):
    chips = [_chip(tmp_path / f"{name}.npz")[0] for name in "abc"]
    seen = []
    real = work_module.open_scene

    def read(path, options):
        scene = real(path, options)
        seen.append(weakref.ref(scene))
        return scene

    def alive(_: Outcome) -> None:
        gc.collect()
        held.append(sum(scene() is not None for scene in seen))

    held: list[int] = []
    monkeypatch.setattr(work_module, "open_scene", read)
    detect_files(chips, tmp_path / "out", Detectors(model), alive)
    assert held == [0, 0, 0]


FULL_DISK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
from flame.cli import main
sys.argv = ["flame", *sys.argv[1:]]
main()
"""


def _on_a_full_disk(*words):
    """Runs the command where no file can grow beyond 30 kB: the system refuses as on a full disk, in the middle."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FULL_DISK, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_disk_that_takes_no_more_breaks_nothing(model, tmp_path):
    chip = tmp_path / "big.npz"
    scene, _ = plume_scene(200, 300)
    np.savez(chip, radiance=scene.radiance, wavelength_nm=np.array(CENTRES_NM), fwhm_nm=np.full(4, 6.0))
    out = tmp_path / "out"
    done = _on_a_full_disk("detect", chip, "--out", out, "--model", model)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "enhancement.tif: cannot be written (File too large)" in done.stderr
    assert sorted(p.name for p in (out / "big").iterdir()) == ["detection.json"]
    assert _found(out / "big")["finished"] is False

    wrote = _on_a_full_disk("filter", "mf", chip, "--out", tmp_path / "score.tif")
    assert wrote.returncode == 1
    assert "wrote" not in wrote.stdout
    assert "score.tif: cannot be written" in wrote.stderr
    assert not list(tmp_path.glob("*score*"))

    drawn = _on_a_full_disk("simulate", "--out", tmp_path / "set", "--tiles", 1, "--size", 128, "--workers", 1)
    assert drawn.returncode == 1
    assert "sim_wide_0_000000: cannot be written" in drawn.stderr
    assert [p.name for p in (tmp_path / "set").iterdir()] == ["simulation.json"]


def test_the_demo_finds_what_it_says(tmp_path):
    from scipy import ndimage

    from flame.physics import sensor, unit_absorption

    bands = sensor("aviris-ng").bands.methane()
    package = whitening_model(64, bands, unit_absorption(bands).copy())
    path = write_package(package, tmp_path / "mf.onnx")
    lines = []
    result = run_demo(tmp_path / "out", Detectors(str(path)), size=64, seed=3, told=lines.append)
    tile = demo_tile(64, 3, "aviris-ng")
    mask, valid = result.detection.mask, tile.scene.valid
    counts = result.counts
    assert (counts.tp, counts.fp, counts.fn) == tuple(
        int((part & valid).sum()) for part in (mask & tile.label, mask & ~tile.label, ~mask & tile.label)
    )
    eight = np.ones((3, 3))
    true_parts, true_count = ndimage.label(tile.label, eight)
    found_parts, found_count = ndimage.label(mask, eight)
    assert 1 <= result.found_plumes <= result.true_plumes <= min(true_count, len(tile.sources))
    assert mask[true_parts > 0].any()
    hits = sum(tile.label[found_parts == part].any() for part in range(1, found_count + 1))
    assert result.false_plumes == found_count - hits
    assert set(result.seconds) == {"load model", "simulate", "detect", "write products"}
    assert len(lines) == 3
    features = json.loads((tmp_path / "out" / "plumes.geojson").read_text())["features"]
    assert len(features) == found_count
    assert all(f["geometry"]["type"].endswith("Polygon") for f in features)
    assert features[0]["properties"]["light_path_basis"] == "angles of sun and sensor"
    assert "FLAME demonstration" in result.report.read_text()
