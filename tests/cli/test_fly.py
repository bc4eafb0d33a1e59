"""`flame fly` and `flame ground` on files, as a user types them; mistakes are one clear line."""

import inspect
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.errors import FlameError
from flame.onboard.link.line_frames import encode_line
from tiny_models import filter_model, plume_scene

BOXES = [(8, 8, 14, 14), (40, 20, 52, 30)]


@pytest.fixture
def flown(tmp_path, monkeypatch):
    """A folder with a model and the frames of a scene."""
    monkeypatch.chdir(tmp_path)
    package = filter_model()
    (tmp_path / "m.onnx").write_bytes(package.onnx)
    (tmp_path / "m.json").write_text(package.manifest.to_json())
    radiance = plume_scene(70, 40, BOXES)[0].radiance
    (tmp_path / "lines.bin").write_bytes(b"".join(encode_line(row, radiance[:, row]) for row in range(70)))
    return radiance


def told(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_lines_become_packets_and_packets_plumes(flown, tmp_path):
    assert told("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--raw-block", 16).exit_code == 0
    done = told("ground", "receive", "p.bin", "--out", "ground")
    assert done.exit_code == 0
    assert len(re.findall(r"^plume \d of scene 0", done.stdout, re.MULTILINE)) == len(BOXES)
    assert "70 lines (0 bad)" in done.stdout
    assert "0 damaged, 0 foreign" in done.stdout
    blocks = sorted((tmp_path / "ground/raw").glob("*.npy"))
    assert blocks
    _, row, col = map(int, blocks[0].stem.split("-"))
    block = np.load(blocks[0])
    expected = flown[:, row : row + block.shape[1], col : col + block.shape[2]]
    np.testing.assert_allclose(block, expected, atol=1e-3)


def test_a_damaged_file_of_packets_costs_what_it_struck(flown, tmp_path):
    told("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--raw-block", 0, "--no-time", "--no-guard")
    content = bytearray((tmp_path / "p.bin").read_bytes())
    content[20] ^= 0xFF
    (tmp_path / "p.bin").write_bytes(b"noise" + content)
    done = told("ground", "receive", "p.bin", "--out", "ground")
    assert len(re.findall(r"^plume \d of scene 0", done.stdout, re.MULTILINE)) == len(BOXES) - 1


@pytest.mark.parametrize("cut", [20, -20])
def test_a_damaged_first_or_last_packet_is_counted(flown, tmp_path, cut):
    told("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--raw-block", 0, "--no-guard")
    content = bytearray((tmp_path / "p.bin").read_bytes())
    content[cut] ^= 0xFF
    (tmp_path / "p.bin").write_bytes(content)
    done = told("ground", "receive", "p.bin", "--out", "ground")
    assert done.exit_code == 0
    assert re.search(r"^1 damaged \(\d+ bytes\), 0 foreign", done.stdout, re.MULTILINE)


def test_two_flights_in_one_file_are_both_stored(flown, tmp_path):
    for scene in (0, 1):
        told("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--raw-block", 0, "--scene", scene)
    done = told("ground", "receive", "p.bin", "--out", "ground")
    assert f"plumes: {2 * len(BOXES)} received, 0 lost, 0 doubled; restarts of the flight: 1" in done.stdout
    assert len((tmp_path / "ground/plumes.jsonl").read_text().splitlines()) == 2 * len(BOXES)
    done = told("ground", "receive", "p.bin", "--out", "ground")
    assert f"plumes: 0 received, 0 lost, {2 * len(BOXES)} doubled" in done.stdout
    assert len((tmp_path / "ground/plumes.jsonl").read_text().splitlines()) == 2 * len(BOXES)


def test_a_file_without_a_packet_of_this_spacecraft_is_refused(flown, tmp_path):
    told("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--raw-block", 0, "--no-guard")
    (tmp_path / "README.md").write_text("# Nothing to see here\n" * 50)
    for words, says in (
        (("README.md",), r"README.md: no packet of APIDs 672 to 676 .*flame fly --to FILE"),
        (("p.bin", "--first-apid", 100), r"p.bin: .* APIDs 100 to 104 .* are of APID 672, 674: give .*--first-apid"),
        (("nosuch.bin",), r"nosuch.bin: no such file; give"),
    ):
        with pytest.raises(FlameError, match=says):
            told("ground", "receive", *words, "--out", "ground")
    assert not (tmp_path / "ground").exists()


def test_the_store_itself_is_no_source(flown, tmp_path):
    told("fly", "lines.bin", "--to", "ground/packets.bin", "--model", "m.onnx", "--raw-block", 0, "--no-guard")
    with pytest.raises(FlameError, match="give another folder with --out"):
        told("ground", "receive", "ground/packets.bin", "--out", "ground")


def test_what_was_never_sent_is_told(flown):
    done = told("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--budget", 10, "--raw-block", 0)
    assert f"0 bytes sent, 0 dropped, never sent: 1 health and answers, {len(BOXES)} plumes" in done.output
    done = told("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--raw-block", 16)
    assert "nothing left unsent" in done.output


def test_lines_that_cannot_be_read_leave_nothing(flown, tmp_path):
    np.save(tmp_path / "other.npy", np.zeros((3, 4)))
    for lines in ("nosuch", "other.npy"):
        with pytest.raises(FlameError, match=lines):
            told("fly", lines, "--to", "new/p.bin", "--model", "m.onnx")
    assert not (tmp_path / "new").exists()


def test_only_networks_are_offered_to_the_flight_computer():
    done = told("export-flight", "--help")
    assert "noise-aware" not in done.output
    with pytest.raises(FlameError, match="is a filter and no model"):
        told("export-flight", "--model", "noise-aware-mf", "--out", "model.bin")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--commands", "udp:0"), "go together"),
        (("fly", "nosuch", "--to", "p.bin", "--model", "m.onnx"), "nosuch: no such file; give a file of line frames"),
        (("fly", "lines.bin", "--to", ".", "--model", "m.onnx"), "cannot write packets to"),
        (("fly", "lines.bin", "--to", "udp:x", "--model", "m.onnx"), "is no address"),
        (("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--packet-bytes", 20), "512 to 65536"),
        (("fly", "lines.bin", "--to", "p.bin", "--model", "m.onnx", "--first-apid", 2046), "first APID"),
        (("fly", "lines.bin", "--to", "p.bin", "--model", "noise-aware-mf"), "is a filter and no model"),
        (("profile", "--model", "noise-aware-mf"), "is a filter and no model"),
        (("ground", "command", "fire", "--key", "k", "--to", "udp:1", "--answers", "udp:0"), "no command 'fire'"),
        (("ground", "command", "mode", "loud", "--key", "k", "--to", "udp:1", "--answers", "udp:0"), "cannot be read"),
    ],
)
def test_mistakes_are_said_in_one_line(flown, words, says):
    with pytest.raises(FlameError, match=says):
        told(*words)


def test_every_command_to_the_spacecraft_has_the_same_options():
    from flame.cli import ground
    from flame.cli.options import FIRST_APID
    from flame.onboard.link.channels import DEFAULT_APID

    uplink = inspect.signature(ground.uplink_options).parameters
    for command in (ground.command, ground.upload):
        assert uplink.keys() < inspect.signature(command).parameters.keys()
    assert FIRST_APID == DEFAULT_APID


def test_keys_are_made_once(flown, tmp_path):
    assert told("ground", "keys", "--out", "keys").exit_code == 0
    assert (tmp_path / "keys/command-public.pem").is_file()
    with pytest.raises(FlameError, match="keys already"):
        told("ground", "keys", "--out", "keys")
