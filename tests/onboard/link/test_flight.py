"""From lines to what the ground has stored, over a link that loses, doubles and shuffles packets."""

import json
import random
import socket
import threading
import time

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.onboard import Detector
from flame.onboard.downlink import PlumePacket
from flame.onboard.link.channels import Channel, PacketMaker
from flame.onboard.link.commander import Commander, body_of
from flame.onboard.link.commands import Command, CommandError, CommandKind, Verifier, encode_command
from flame.onboard.link.flight import FlightProcess, FlightSettings
from flame.onboard.link.ground import GroundStation, StoredBlock
from flame.onboard.link.health import Answer, Health, Mode, Outcome
from flame.onboard.link.line_frames import Line, LineReader, encode_line
from flame.onboard.link.loop import LoopSettings, fly
from flame.onboard.link.model_store import ModelStore, bundle_model
from flame.onboard.link.ports import DatagramPort, PacketSink, PortError, parse_place
from flame.onboard.link.space_packet import split_packets
from tiny_models import filter_model, plume_scene

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
BOXES = [(8, 8, 14, 14), (40, 20, 52, 30), (70, 3, 76, 9)]
ROWS, COLS = 90, 40


@pytest.fixture(scope="module")
def factory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("factory")
    package = filter_model()
    (folder / "f.onnx").write_bytes(package.onnx)
    (folder / "f.json").write_text(package.manifest.to_json())
    return folder / "f.onnx"


@pytest.fixture(scope="module")
def scene():
    return plume_scene(ROWS, COLS, BOXES)[0]


def make_process(tmp_path, factory, **changes):
    store, verifier = ModelStore(tmp_path, factory), Verifier(KEY.public_key(), tmp_path, 7)
    return FlightProcess(store, FlightSettings(**({"threads": 1, "raw_block": 16} | changes)), verifier)


def push_all(process, scene, skip=()):
    for row in range(scene.shape[0]):
        if row not in skip:
            process.take_line(Line(row, scene.radiance[:, row]))


def lossy(packets, seed):
    """One in eight lost, one in eight doubled, all moved by up to five places."""
    draw = random.Random(seed)
    kept = [p for p in packets for _ in range(draw.choices([0, 1, 2], [1, 6, 1])[0])]
    order = sorted(range(len(kept)), key=lambda place: place + draw.uniform(0, 5))
    return [kept[place] for place in order]


@pytest.fixture(scope="module")
def sent(tmp_path_factory, factory, scene):
    """All packets of one scene, and what the detector itself says of it."""
    process = make_process(tmp_path_factory.mktemp("state"), factory)
    push_all(process, scene)
    process.end_scene()
    process.tell_health()
    return list(process.packets(10**9)), Detector(factory, threads=1).run(scene)


def test_over_a_good_link_the_ground_has_every_plume_and_the_radiance_of_their_blocks(tmp_path, sent, scene):
    packets, whole = sent
    station = GroundStation(tmp_path)
    told = [station.receive(packet) for packet in packets]
    assert station.close() == []
    plumes = [t for t in told if isinstance(t, PlumePacket)]
    assert sorted((p.first_row, p.first_col, p.area_px) for p in plumes) == sorted(
        (p.first_row, p.first_col, p.area_px) for p in whole.plumes
    )
    assert len(plumes) == len(BOXES)
    (health,) = (t for t in told if isinstance(t, Health))
    assert health.lines == ROWS
    assert health.bad_lines == 0
    assert health.healthy == 1
    assert health.tiles > 0
    covered = np.zeros((ROWS, COLS), dtype=bool)
    for block in (t for t in told if isinstance(t, StoredBlock)):
        _, row, col = map(int, block.name.split("-"))
        radiance = np.load(tmp_path / "raw" / f"{block.name}.npy")
        _, rows, cols = radiance.shape
        here = np.s_[row : row + rows, col : col + cols]
        np.testing.assert_allclose(radiance, scene.radiance[:, *here], atol=1.01 * 5 / 65534)
        covered[here] = True
    assert (covered >= whole.mask).all()
    assert not covered.all()
    assert len((tmp_path / "plumes.jsonl").read_text().splitlines()) == len(BOXES)
    assert all(counts["lost"] == counts["doubled"] == 0 for counts in station.summary().values())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_over_a_lossy_link_nothing_is_told_twice_or_wrongly_and_losses_are_counted(tmp_path_factory, sent, seed):
    packets, whole = sent
    arrived = lossy(packets, seed)
    station = GroundStation(tmp_path_factory.mktemp("lossy"))
    told = [station.receive(packet) for packet in arrived]
    left = station.close()
    plumes = [(t.first_row, t.first_col, t.area_px) for t in told if isinstance(t, PlumePacket)]
    assert len(set(plumes)) == len(plumes)
    assert set(plumes) <= {(p.first_row, p.first_col, p.area_px) for p in whole.plumes}
    assert station.damaged == 0
    counts = station.summary().values()
    assert sum(c["received"] for c in counts) == len(set(arrived))
    assert sum(c["doubled"] for c in counts) == len(arrived) - len(set(arrived))
    assert sum(c["lost"] for c in counts) <= len(packets) - len(set(arrived))
    assert all(block.missing_bytes > 0 for block in left)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_damaged_packets_are_dropped(tmp_path_factory, sent, data):
    station = GroundStation(tmp_path_factory.mktemp("damaged"))
    packet = bytearray(data.draw(st.sampled_from(sent[0])))
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert station.receive(bytes(packet)) is None
    assert station.damaged == 1
    station.close()


def test_packets_of_others_are_foreign_and_not_damaged(tmp_path):
    station = GroundStation(tmp_path)
    assert station.receive(PacketMaker(100).make(Channel.PLUMES, b"theirs")) is None
    station.close()
    assert (station.foreign, station.damaged) == (1, 0)


def test_a_flight_that_is_started_again_is_stored_too(tmp_path, factory, scene):
    """Also its raw blocks, which are of the same places in a scene of the same number."""
    station = GroundStation(tmp_path / "ground")
    told = []
    for gain in (1.0, 1.25):
        process = make_process(tmp_path / f"state {gain}", factory)
        for row in range(ROWS):
            process.take_line(Line(row, np.float32(gain) * scene.radiance[:, row]))
        process.end_scene()
        told.append([t for p in process.packets(10**9) if (t := station.receive(p)) is not None])
    assert station.close() == []
    first, again = ([t.name for t in some if isinstance(t, StoredBlock)] for some in told)
    assert len({*first, *again}) == len(first) + len(again) == len(list((tmp_path / "ground/raw").glob("*.npy")))
    for name in again:
        np.testing.assert_allclose(
            np.load(tmp_path / f"ground/raw/{name}.npy"),
            1.25 * np.load(tmp_path / f"ground/raw/{'-'.join(name.split('-')[:3])}.npy"),
            atol=1e-3,
        )
    assert len((tmp_path / "ground/plumes.jsonl").read_text().splitlines()) == 2 * len(BOXES)
    assert station.summary()["plumes"] == {"received": 2 * len(BOXES), "lost": 0, "doubled": 0, "restarts": 1}


def test_a_second_station_in_the_same_folder_stores_nothing_twice_and_ends_what_was_left(tmp_path, sent):
    packets, _ = sent
    first = GroundStation(tmp_path)
    for packet in packets[::2]:
        first.receive(packet)
    assert first.close()
    for _ in range(2):
        station = GroundStation(tmp_path)
        for packet in packets:
            station.receive(packet)
        assert station.close() == []
    assert sum(counts["doubled"] for counts in station.summary().values()) == len(packets)
    assert len((tmp_path / "packets.bin").read_bytes()) == sum(map(len, packets))
    assert len((tmp_path / "plumes.jsonl").read_text().splitlines()) == len(BOXES)
    assert len((tmp_path / "health.jsonl").read_text().splitlines()) == 1
    for block in (tmp_path / "raw").glob("*.npy"):
        assert np.isfinite(np.load(block)).all()


def test_a_lossy_block_keeps_the_lines_that_came(tmp_path, sent):
    raw = [p for p in sent[0] if int.from_bytes(p[:2], "big") & 0x7FF == 0x2A1]
    station = GroundStation(tmp_path)
    for packet in raw[1:]:
        station.receive(packet)
    (left,) = station.close()
    radiance = np.load(tmp_path / "raw" / f"{left.name}.npy")
    missing = np.isnan(radiance).all(axis=(0, 2))
    assert missing.any()
    assert np.isfinite(radiance[:, ~missing]).all()


def test_lost_lines_are_invalid_late_ones_dropped_and_a_long_gap_begins_a_new_scene(tmp_path, factory, scene):
    process = make_process(tmp_path, factory)
    push_all(process, scene, skip=(20, 21))
    process.take_line(Line(5, scene.radiance[:, 5]))  # late
    process.take_line(Line(ROWS, scene.radiance[:2, 0]))  # of another instrument
    assert process.health().bad_lines == 4
    assert process.health().lines == ROWS - 2
    process.take_line(Line(ROWS + 5000, scene.radiance[:, 0]))
    process.end_scene()
    station = GroundStation(tmp_path / "ground")
    plumes = [t for p in process.packets(10**9) if isinstance(t := station.receive(p), PlumePacket)]
    station.close()
    assert sorted(p.first_row for p in plumes) == sorted(box[0] for box in BOXES)
    assert process._scene == 1


def answer_of(process, kind, body=b"", counter=None, key=KEY, spacecraft=7):
    answer_of.counter = counter or getattr(answer_of, "counter", 0) + 1
    data = encode_command(Command(kind, answer_of.counter, body, spacecraft), key)
    return process.take_packet(PacketMaker(timed=False).make(Channel.COMMANDS, data))


def test_commands_change_what_they_say_and_refusals_have_a_reason(tmp_path, factory, scene):
    process = make_process(tmp_path, factory)
    normal, running = process.threshold, bytes.fromhex(process.detector.manifest.sha256)[:8]
    assert (
        answer_of(process, CommandKind.MODE, body_of(CommandKind.MODE, "sensitive"), counter=1).outcome is Outcome.DONE
    )
    assert process.threshold < normal
    answer = answer_of(process, CommandKind.THRESHOLD, body_of(CommandKind.THRESHOLD, "0.9"))
    assert process.threshold == pytest.approx(0.9)
    assert "0.9" in answer.reason
    for kind, body, words in (
        (CommandKind.THRESHOLD, body_of(CommandKind.THRESHOLD, "1.5"), "between 0 and 1"),
        (CommandKind.THRESHOLD, b"1", "4 bytes"),
        (CommandKind.MODE, b"\x09", "mode 9"),
        (CommandKind.UPLOAD_PIECE, b"123456789", "no upload"),
        (CommandKind.UPLOAD_FINISH, bytes(4), "upload 0 is not under way"),
        (CommandKind.ROLL_BACK, bytes(8), "does not run"),
        (CommandKind.ROLL_BACK, running, "none before it"),
        (CommandKind.SELF_TEST, b"", "no guarded stream"),
    ):
        answer = answer_of(process, kind, body)
        assert answer.outcome is Outcome.REFUSED
        assert words in answer.reason
    assert answer_of(process, CommandKind.TELL_HEALTH, counter=answer_of.counter).outcome is Outcome.REFUSED  # replayed
    assert process.take_packet(b"noise").kind == 255
    telemetry = PacketMaker(timed=False).make(Channel.HEALTH, b"x")
    assert "no command" in process.take_packet(telemetry).reason
    assert process.threshold == pytest.approx(0.9)
    push_all(process, scene)
    assert answer_of(process, CommandKind.SELF_TEST).reason == "the known tile gave the known answer"
    health = process.health()
    assert health.accepted == 3
    assert health.refused == 11
    station = GroundStation(tmp_path / "ground")
    answers = [t for p in process.packets(10**9) if isinstance(t := station.receive(p), Answer)]
    station.close()
    assert len(answers) == 14


def test_a_raised_threshold_counts_for_the_lines_that_follow(tmp_path, factory, scene):
    process = make_process(tmp_path, factory)
    answer_of(process, CommandKind.THRESHOLD, body_of(CommandKind.THRESHOLD, "0.9999999"), counter=1)
    push_all(process, scene)
    process.end_scene()
    station = GroundStation(tmp_path / "ground")
    (answer,) = (station.receive(packet) for packet in process.packets(10**9))
    station.close()
    assert isinstance(answer, Answer)


def test_values_that_a_command_does_not_take_are_refused_on_the_ground():
    for kind, value in (
        (CommandKind.MODE, "loud"),
        (CommandKind.THRESHOLD, "high"),
        (CommandKind.LINK_BUDGET, "-1"),
        (CommandKind.ROLL_BACK, "2"),
    ):
        with pytest.raises(CommandError, match=kind.name.lower()):
            body_of(kind, value)


def test_a_model_is_uploaded_over_a_lossy_link_runs_and_is_rolled_back(tmp_path, factory, scene):
    process = make_process(tmp_path / "space", factory)
    draw = random.Random(4)
    station = GroundStation(tmp_path / "ground")

    def exchange(packet, counter):
        """Up and down each lose one in five; one in five commands arrives twice."""
        for _ in range(draw.choices([0, 1, 2], [1, 3, 1])[0]):
            process.take_packet(packet)
        told = [station.receive(down) for down in process.packets(10**6) if draw.random() > 0.2]
        return next((t for t in told if isinstance(t, Answer) and t.counter == counter), None)

    commander = Commander(KEY, tmp_path / "counter", 7)
    better = filter_model(centred=True)
    push_all(process, scene)
    before = process.detector.manifest.sha256
    answer = commander.upload(exchange, bundle_model(better), tries=30)
    assert answer.outcome is Outcome.DONE
    assert process.detector.manifest.sha256 == better.manifest.sha256 != before
    assert process.health().model == bytes.fromhex(better.manifest.sha256)[:8]
    # It is still there after a restart, with the same counter; then the ground takes it back.
    process = make_process(tmp_path / "space", factory)
    assert process.detector.manifest.sha256 == better.manifest.sha256
    commander.ask(exchange, CommandKind.ROLL_BACK, body_of(CommandKind.ROLL_BACK, better.manifest.sha256[:16]), 30)
    assert process.detector.manifest.sha256 == before
    station.close()


def test_the_last_command_once_more_is_answered_again_but_not_carried_out_again(tmp_path, factory):
    process, commander = make_process(tmp_path, factory), Commander(KEY, tmp_path / "counter", 7)
    first = commander.packet(CommandKind.TELL_HEALTH)[1]
    answer = process.take_packet(first)
    assert process.take_packet(first) == answer
    assert answer.outcome is Outcome.DONE
    assert process.health().accepted == 1
    process.take_packet(commander.packet(CommandKind.TELL_HEALTH)[1])
    assert process.take_packet(first).outcome is Outcome.REFUSED  # by now it is old


def test_a_model_that_fails_its_self_test_never_runs(tmp_path, factory, monkeypatch):
    process = make_process(tmp_path, factory)
    monkeypatch.setattr("flame.onboard.guard.guard.Guard.finds_plumes", False)
    commander, answers = Commander(KEY, tmp_path / "counter", 7), []

    def exchange(packet, _counter):
        answers.append(process.take_packet(packet))
        return answers[-1]

    with pytest.raises(CommandError, match="failed its self-test; the model before it stays"):
        commander.upload(exchange, bundle_model(filter_model(centred=True)))
    assert ModelStore(tmp_path, factory).load().manifest.sha256 == process.detector.manifest.sha256


class _LossyRelay(threading.Thread):
    """Passes datagrams on over loopback; some are lost, doubled or held back behind the next."""

    def __init__(self, to, seed):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.1)
        self.port, self.to, self.draw, self.running = self.socket.getsockname()[1], to, random.Random(seed), True
        self.passed = self.lost = 0

    def run(self):
        held = []
        while self.running:
            try:
                content = self.socket.recv(65535)
            except TimeoutError:
                ready, held = held, []
            else:
                copies = self.draw.choices([0, 1, 2], [1, 8, 1])[0]
                self.lost += copies == 0
                self.passed += copies > 0
                if copies and self.draw.random() < 0.2:
                    held.append(content)
                    continue
                ready, held = [content] * copies + held, []
            for one in ready:
                self.socket.sendto(one, self.to)


def test_end_to_end_over_loopback(tmp_path, factory, scene):
    """Lines over TCP, packets and commands over UDP through relays that lose, double and shuffle."""
    uplink, downlink = DatagramPort("udp:0"), DatagramPort("udp:0")
    relays = _LossyRelay(uplink.address, 1), _LossyRelay(downlink.address, 2)
    for relay in relays:
        relay.start()
    process = make_process(tmp_path / "space", factory)
    frames = [encode_line(row, scene.radiance[:, row]) for row in range(ROWS)]
    sink = PacketSink(f"udp:127.0.0.1:{relays[1].port}")
    done = threading.Event()

    def lines():
        yield from (frame for frame in frames[:-1])
        while not done.wait(0.02):  # the instrument is silent while commands come
            yield b""
        yield frames[-1]

    flight = threading.Thread(target=fly, args=(process, lines(), sink, uplink, LoopSettings(health_s=0.2)))
    flight.start()
    station, commander = GroundStation(tmp_path / "ground"), Commander(KEY, tmp_path / "counter", 7)

    def exchange(packet, counter):
        downlink.send(packet, ("127.0.0.1", relays[0].port))
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for content in downlink.waiting(0.1):
                told = station.receive(content)
                if isinstance(told, Answer) and told.counter == counter:
                    return told
        return None

    answer = commander.ask(exchange, CommandKind.MODE, body_of(CommandKind.MODE, "sure"), tries=50)
    assert answer.outcome is Outcome.DONE
    assert process.health().mode is Mode.SURE
    done.set()
    flight.join(60)
    assert not flight.is_alive()
    told = []
    while arrived := [station.receive(content) for content in downlink.waiting(1.0)]:
        told += arrived
    for relay in relays:
        relay.running = False
        relay.join(5)
    sink.close()
    station.close()
    counts = station.summary()
    assert sum(c["received"] for c in counts.values()) == relays[1].passed
    assert relays[1].lost > 0
    assert sum(c["lost"] for c in counts.values()) <= relays[1].lost
    assert sum(c["doubled"] for c in counts.values()) > 0
    stored = [json.loads(line) for line in (tmp_path / "ground/plumes.jsonl").read_text().splitlines()]
    assert 0 < len(stored) <= len(BOXES)
    assert counts["health"]["received"] > 0
    assert process.health().lines == ROWS
    for port in (uplink, downlink):
        port.close()


def test_the_budget_of_a_pass_holds_and_plumes_come_before_raw_blocks(tmp_path, factory, scene):
    out = tmp_path / "packets.bin"
    sink = PacketSink(str(out))
    process = make_process(tmp_path, factory)
    frames = [encode_line(row, scene.radiance[:, row]) for row in range(ROWS)]
    fly(process, frames, sink, settings=LoopSettings(budget_bytes=900, rate_bytes_s=0))
    sink.close()
    content = out.read_bytes()
    assert 300 < len(content) <= 900
    apids = [int.from_bytes(p[:2], "big") & 0x7FF for p in split_packets(content, range(0x2A0, 0x2A5))]
    assert apids.count(0x2A0) == len(BOXES)
    assert 0x2A1 not in apids


@settings(deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 200), max_size=20), st.booleans(), st.booleans())
def test_frames_come_back_however_they_are_cut(seed, cuts, counted, coloured):
    rng = np.random.default_rng(seed)
    lines = [(rng.integers(0, 60000, (5, 7)).astype("u2" if counted else "f4")) for _ in range(3)]
    rgb = rng.random((3, 7)).astype("f4") if coloured and not counted else None
    content = b"".join(encode_line(n, line, rgb) for n, line in enumerate(lines))
    reader, found, at = LineReader(), [], 0
    for size in [*cuts, len(content)]:
        found += reader.feed(content[at : at + size])
        at += size
    assert [line.number for line in found] == [0, 1, 2]
    assert reader.bad == 0
    for line, was in zip(found, lines, strict=True):
        np.testing.assert_array_equal(line.radiance, was)
        assert (line.rgb is None) == (rgb is None)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_frame_costs_itself_only(data):
    frames = [encode_line(n, np.full((4, 9), n + 0.5, "f4")) for n in range(4)]
    struck = data.draw(st.integers(0, 3))
    content = bytearray(frames[struck])
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    frames[struck] = bytes(content)
    reader = LineReader()
    found = [line.number for line in reader.feed(data.draw(st.binary(max_size=9)) + b"".join(frames))]
    assert found == [n for n in range(4) if n != struck]
    assert reader.bad >= 1


def test_places_are_read_as_they_are_written():
    assert parse_place("udp:5600", "udp") == ("127.0.0.1", 5600)
    assert parse_place("udp:10.0.0.2:5600", "udp") == ("10.0.0.2", 5600)
    assert parse_place("packets.bin", "udp") is None
    with pytest.raises(PortError, match="no address"):
        parse_place("udp:here", "udp")
    taken = DatagramPort("udp:0")
    with pytest.raises(PortError, match="cannot listen"):
        DatagramPort(f"udp:{taken.address[1]}")
    taken.close()
