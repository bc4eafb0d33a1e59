"""The core that plumes need in flight: whose it is, how it is commanded, and that old commands mean what they meant."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from flame.onboard import Detector, ModelPackage, write_package
from flame.onboard.asked import Asked
from flame.onboard.downlink import PlumePacket
from flame.onboard.link.channels import Channel, PacketMaker
from flame.onboard.link.commander import body_of
from flame.onboard.link.commands import Command, CommandError, CommandKind, Verifier, encode_command
from flame.onboard.link.flight import FlightProcess, FlightSettings
from flame.onboard.link.ground import GroundStation, StoredBlock
from flame.onboard.link.health import Answer, Outcome
from flame.onboard.link.line_frames import Line
from flame.onboard.link.model_store import ModelStore
from flame.onboard.manifest import OperatingPoint
from flame.pipeline.export_plus import plus_package
from flame.scene import Scene
from flame.simulate import preset, simulate_tile, tile_generator
from tiny_models import filter_model, random_plus

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIDE = 64
POINTS = {
    "high-recall": OperatingPoint(0.2, 0.5),
    "balanced": OperatingPoint(0.5, 0.6),
    "high-precision": OperatingPoint(0.9, 0.7),
}


@pytest.fixture(scope="module")
def package() -> ModelPackage:
    return plus_package(random_plus(), 64, "tiny-plus", POINTS, {}, {}, "memory")


@pytest.fixture(scope="module")
def scene() -> Scene:
    settings = preset("wide", size=SIDE, sensor_name="aviris-ng")
    return simulate_tile(tile_generator(3, 1), settings, "aviris-ng").tile.scene.methane()


def flying(folder: Path, package: ModelPackage) -> FlightProcess:
    store = ModelStore(folder, write_package(package, folder / "factory.onnx"))
    settings = FlightSettings(runtime="onnxruntime", threads=1, raw_block=16, guard=None)
    return FlightProcess(store, settings, Verifier(KEY.public_key(), folder))


def commanded(process: FlightProcess, kind: CommandKind, body: bytes, counter: int) -> Answer:
    data = encode_command(Command(kind, counter, body), KEY)
    return process.take_packet(PacketMaker(timed=False).make(Channel.COMMANDS, data))


def flown(process: FlightProcess, scene: Scene, folder: Path) -> tuple[list[tuple[int, int, int]], int]:
    """Plumes that the ground has after a scene, and how many raw blocks."""
    for row in range(SIDE):
        process.take_line(Line(row, scene.radiance[:, row]))
    process.end_scene()
    station = GroundStation(folder)
    told = [station.receive(packet) for packet in process.packets(10**9)]
    station.close()
    plumes = sorted((t.first_row, t.first_col, t.area_px) for t in told if isinstance(t, PlumePacket))
    return plumes, sum(isinstance(t, StoredBlock) for t in told)


def on_the_ground(package: ModelPackage, scene: Scene, asked: Asked) -> list[tuple[int, int, int]]:
    found = Detector(package, "onnxruntime", 1, asked=replace(asked, level="visible")).run(scene)
    return sorted((plume.first_row, plume.first_col, plume.area_px) for plume in found.plumes)


def test_uncommanded_it_sends_the_plumes_of_the_ground(tmp_path: Path, package: ModelPackage, scene: Scene) -> None:
    process = flying(tmp_path, package)
    assert process.core_sigmas == 0.6
    plumes, blocks = flown(process, scene, tmp_path / "ground")
    assert plumes == on_the_ground(package, scene, Asked())
    assert 0 < len(plumes) < len(on_the_ground(package, scene, Asked(core_sigmas=0.0)))
    bare = flying(tmp_path / "bare", package)
    assert commanded(bare, CommandKind.CORE, struct.pack(">f", 0.0), 1).outcome is Outcome.DONE
    assert flown(bare, scene, tmp_path / "bare ground")[1] == blocks  # raw blocks follow the masks of lines


def test_a_core_is_commanded_beside_the_threshold(tmp_path: Path, package: ModelPackage, scene: Scene) -> None:
    process = flying(tmp_path, package)
    answer = commanded(process, CommandKind.CORE, body_of(CommandKind.CORE, "0.65"), 1)
    assert (answer.outcome, answer.reason) == (Outcome.DONE, "mode normal, threshold 0.5000, core 0.65 sigma")
    answer = commanded(process, CommandKind.THRESHOLD, body_of(CommandKind.THRESHOLD, "0.49"), 2)
    assert answer.reason == "mode normal, threshold 0.4900, core 0.65 sigma"
    asked = Asked(threshold=float(np.float32(0.49)), core_sigmas=float(np.float32(0.65)))
    expected = on_the_ground(package, scene, asked)
    assert flown(process, scene, tmp_path / "ground")[0] == expected
    assert 0 < len(expected) < len(on_the_ground(package, scene, replace(asked, core_sigmas=0.0)))


def test_an_old_threshold_command_asks_for_no_core(tmp_path: Path, package: ModelPackage, scene: Scene) -> None:
    """Four bytes, as before there were cores in flight: the very plumes that it gave then."""
    process = flying(tmp_path, package)
    answer = commanded(process, CommandKind.THRESHOLD, struct.pack(">f", 0.5), 1)
    assert (answer.outcome, answer.reason) == (Outcome.DONE, "mode normal, threshold 0.5000, no core")
    assert flown(process, scene, tmp_path / "ground")[0] == on_the_ground(package, scene, Asked(threshold=0.5))


def test_a_mode_has_the_core_of_its_sensitivity(tmp_path: Path, package: ModelPackage) -> None:
    process, cores = flying(tmp_path, package), {}
    for number, mode in enumerate(("sensitive", "sure", "normal"), start=1):
        assert commanded(process, CommandKind.MODE, body_of(CommandKind.MODE, mode), number).outcome is Outcome.DONE
        cores[mode] = process.core_sigmas
    assert cores == {"sensitive": 0.5, "sure": 0.7, "normal": 0.6}
    commanded(process, CommandKind.CORE, body_of(CommandKind.CORE, "2.5"), 4)
    commanded(process, CommandKind.MODE, body_of(CommandKind.MODE, "sure"), 5)
    assert process.core_sigmas == 2.5


@pytest.mark.parametrize("sigmas", [-1.0, float("nan"), float("inf")])
def test_what_is_no_core_is_refused(tmp_path: Path, package: ModelPackage, sigmas: float) -> None:
    process = flying(tmp_path, package)
    answer = commanded(process, CommandKind.CORE, struct.pack(">f", sigmas), 1)
    assert answer.outcome is Outcome.REFUSED
    assert "must be 0 or more" in answer.reason
    assert process.core_sigmas == 0.6
    with pytest.raises(CommandError, match="core takes a number of standard deviations"):
        body_of(CommandKind.CORE, "strong")


def test_a_model_without_standard_deviations_takes_no_core(tmp_path: Path) -> None:
    process = flying(tmp_path, filter_model())
    assert process.core_sigmas is None
    answer = commanded(process, CommandKind.CORE, struct.pack(">f", 3.0), 1)
    assert (answer.outcome, process.core_sigmas) == (Outcome.REFUSED, None)
    assert "does not tell how sure it is of gas" in answer.reason
