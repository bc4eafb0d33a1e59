"""A watched folder: what belongs to a scene counts as it, and how a watch ends."""

import os

import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.onboard import write_package
from flame.pipeline.find_scenes import known_to_a_reader
from flame.pipeline.watch import WatchSettings, _state, watch_folder
from tiny_models import CENTRES_NM, plume_scene, whitening_model


def test_angles_that_arrive_after_their_scene_have_it_done_again(tmp_path):
    header = "ENVI\nsamples = 4\nlines = 4\nbands = 4\ndata type = 4\ninterleave = bil\nbyte order = 0\n"
    (tmp_path / "line.img").write_bytes(bytes(4 * 64))
    (tmp_path / "line.img.hdr").write_text(header)
    now, given = [0.0], []

    def sleep(seconds):
        now[0] += seconds
        if now[0] == 10.0:
            (tmp_path / "line_obs.img").write_bytes(b"angles")
        if now[0] == 12.0:  # still growing
            (tmp_path / "line_obs.img").write_bytes(b"more angles")
        if now[0] == 18.0:
            (tmp_path / "other_obs.img").write_bytes(b"of another line")

    settings = WatchSettings(every_s=2.0, settled_s=4.0, idle_s=20.0)
    watch_folder(
        tmp_path, lambda scenes: given.append((now[0], [p.name for p in scenes])) or [], settings, lambda: now[0], sleep
    )
    assert given == [(4.0, ["line.img"]), (16.0, ["line.img"])]


def test_a_scene_is_looked_into_again_only_once_it_has_changed(tmp_path, monkeypatch):
    """A thousand granules must not be opened anew every two seconds; but what is no scene yet may become one."""
    scene, _ = plume_scene(64, 80, ((8, 8, 14, 14),), 0)
    np.savez(tmp_path / "x.npz", radiance=scene.radiance, wavelength_nm=np.array(CENTRES_NM))
    (tmp_path / "line.img").write_bytes(bytes(4 * 64))
    now, opened, given = [0.0], [], []

    def looked_into(path):
        opened.append((now[0], path.name))
        return known_to_a_reader(path)

    def sleep(seconds):
        now[0] += seconds
        if now[0] == 4.0:
            (tmp_path / "line.img.hdr").write_text("ENVI\n")
        if now[0] == 8.0:
            os.utime(tmp_path / "x.npz", ns=(1, 7))

    monkeypatch.setattr("flame.pipeline.watch.known_to_a_reader", looked_into)
    settings = WatchSettings(every_s=2.0, settled_s=0.0, idle_s=6.0)
    watch_folder(tmp_path, lambda scenes: given.extend(p.name for p in scenes) or [], settings, lambda: now[0], sleep)
    assert [at for at, name in opened if name == "x.npz"] == [0.0, 8.0]
    assert [at for at, name in opened if name == "line.img"] == [0.0, 2.0, 4.0]
    assert given == ["x.npz", "line.img", "x.npz"]


@pytest.mark.parametrize(("good", "code"), [(1, 3), (0, 1)])
def test_the_exit_code_tells_of_scenes_that_failed(good, code, tmp_path, monkeypatch):
    for name in ("plot_quicklook", "write_scene_page"):
        monkeypatch.setattr(f"flame.pipeline.scene_products.{name}", lambda path, *_: path.write_bytes(b"x"))
    model = write_package(whitening_model(), tmp_path / "model" / "tiny.onnx")
    scenes = tmp_path / "in"
    scenes.mkdir()
    (scenes / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    if good:
        scene, _ = plume_scene(64, 80, ((8, 8, 14, 14),), 0)
        np.savez(scenes / "x.npz", radiance=scene.radiance, wavelength_nm=np.array(CENTRES_NM))
    words = ["watch", str(scenes), "--out", str(tmp_path / "out"), "--model", str(model)]
    result = CliRunner().invoke(app, [*words, "--settled", "0", "--every", "0.1", "--idle", "0.2"])
    assert result.exit_code == code, result.output
    assert f"{good} of {good + 1} scenes done" in result.output


def test_a_folder_that_is_gone_has_no_state(tmp_path):
    assert _state(tmp_path / "gone" / "scene.nc") == (0, 0)
