"""The flight process without its sockets: lines and commands in, packets out."""

from __future__ import annotations

import logging
import resource
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flame.detection import DecisionRule
from flame.onboard.asked import USUAL_SENSITIVITY, Asked
from flame.onboard.detector import Detector
from flame.onboard.downlink import PacketError
from flame.onboard.guard import Guard, GuardCounts, GuardSettings
from flame.onboard.link.channels import DEFAULT_APID, Channel, PacketMaker, channel_of
from flame.onboard.link.commands import (
    Command,
    CommandError,
    CommandKind,
    UploadPlan,
    Verifier,
    peek_command,
    sensitivity_of,
    threshold_of,
)
from flame.onboard.link.health import Answer, Health, Mode, Outcome, encode_answer, encode_health
from flame.onboard.link.line_frames import Line
from flame.onboard.link.model_store import ModelStore, Upload, decode_piece
from flame.onboard.link.queue import DownlinkQueue, QueueSettings
from flame.onboard.link.raw_blocks import RawBlock, pack_line
from flame.onboard.link.space_packet import decode_space_packet
from flame.onboard.package import ModelPackage
from flame.onboard.stream import LineStream, StreamBlock
from flame.onboard.telemetry import HardwareSensor

__all__ = ["FlightProcess", "FlightSettings"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class FlightSettings:
    """How the flight process works.

    Attributes:
        first_apid: First of its APIDs.
        timed: Whether packets carry the time.
        raw_block: Side of the raw blocks that are sent, in pixels; None: no raw blocks.
        scene: Number of the first scene; each time the stream begins anew it is one more.
        runtime: Engine for the model, as in `Detector`.
        threads: CPU threads, as in `Detector`.
        guard: How faults are looked for.
        queue: Sizes of packets and of what waits.
    """

    first_apid: int = DEFAULT_APID
    timed: bool = True
    raw_block: int | None = 64
    scene: int = 0
    runtime: str = "auto"
    threads: int | None = None
    guard: GuardSettings | None = field(default_factory=GuardSettings)
    queue: QueueSettings = field(default_factory=QueueSettings)


class FlightProcess:
    """Lines and commands in, packets out; no data and no command makes it stop.

    Args:
        store: The models on board.
        settings: How it works.
        verifier: Checks commands; None: every command is refused.
        sensors: For the temperature in health packets.

    Attributes:
        detector: What judges the lines.
        queue: What waits for the link.
        rate_bytes_s: Bytes a second that the ground has commanded; None: what the process was started with.
    """

    def __init__(
        self,
        store: ModelStore,
        settings: FlightSettings | None = None,
        verifier: Verifier | None = None,
        sensors: list[HardwareSensor] | None = None,
    ) -> None:
        self.settings = settings or FlightSettings()
        self._store, self._verifier = store, verifier
        self._sensors = [sensor for sensor in sensors or [] if sensor.quantity == "temperature"]
        self.queue = DownlinkQueue(PacketMaker(self.settings.first_apid, self.settings.timed), self.settings.queue)
        self._began = time.monotonic()
        self._scene, self._plumes = self.settings.scene - 1, 0
        self._stream: LineStream | None = None
        self._next_line: int | None = None
        self._lines = self._bad_lines = self._accepted = self._refused = 0
        self.rate_bytes_s: int | None = None
        self._mode = Mode.NORMAL
        self._normal: float | None = None
        self._core: float | None = None
        self._upload: Upload | None = None
        self._finished: int | None = None
        self._last: tuple[bytes, Answer] | None = None
        self._guard: Guard | None = None
        self._counts = GuardCounts()
        self.detector = self._opened(store.load())

    @property
    def threshold(self) -> float:
        """Probability above which a pixel is plume now."""
        return threshold_of(self._mode, self.detector.manifest.threshold if self._normal is None else self._normal)

    @property
    def core_sigmas(self) -> float | None:
        """Standard deviations above zero that a plume must somewhere have now; None: no such rule.

        What was commanded; else that of the mode, and none with a threshold that was commanded, as on the ground.
        """
        facts = self.detector.manifest.plane_facts
        if facts is None:
            return None
        if self._core is not None or self._normal is not None:
            return self._core or None
        wanted = sensitivity_of(self._mode)
        return facts.core_of(wanted if wanted in facts.sensitivities else USUAL_SENSITIVITY)

    def take_line(self, line: Line) -> None:
        """Judges a line; lines that were lost before it count as invalid, those that come late or twice are dropped."""
        manifest = self.detector.manifest
        width = None if self._stream is None else self._stream.width
        fits = line.radiance.shape[0] == len(manifest.band_centres_nm) and width in (None, line.radiance.shape[1])
        late = self._next_line is not None and line.number < self._next_line
        if not fits or late or ("rgb" in manifest.inputs and line.rgb is None):
            self._bad_lines += 1
            return
        lost = 0 if self._next_line is None else line.number - self._next_line
        if lost > manifest.tile:
            self.end_scene()
            lost = 0
        if self._stream is None:
            self._stream = self._begin_scene(line.radiance.shape[1])
        self._bad_lines += lost
        rgb = line.rgb if "rgb" in manifest.inputs else None
        for filler in range(lost + 1):
            good = filler == lost
            radiance, colour = (line.radiance, rgb) if good else (0 * line.radiance, None if rgb is None else 0 * rgb)
            valid = np.full((1, radiance.shape[1]), good)
            self._stream.push(radiance[:, None], None if colour is None else colour[:, None], valid)
        self._lines += 1
        self._next_line = line.number + 1

    def note_bad_lines(self, count: int) -> None:
        """Frames that could not be read."""
        self._bad_lines += count

    def end_scene(self) -> None:
        """Judges what is held; the next line begins a new scene."""
        if self._stream is not None:
            self._stream.close()
        self._stream = self._next_line = None

    def take_packet(self, content: bytes) -> Answer:
        """Carries out the command in a space packet, or refuses it; the answer is queued too."""
        counter, kind = 0, 255
        try:
            packet = decode_space_packet(content)
            if channel_of(packet, self.settings.first_apid) is not Channel.COMMANDS:
                raise CommandError("telemetry is no command")
            counter, kind = peek_command(packet.data)
            if self._last is not None and self._last[0] == packet.data:
                # The same command once more: its answer was lost, or the link doubled it. It is not carried out again.
                self.queue.tell(Channel.ANSWERS, encode_answer(self._last[1]))
                return self._last[1]
            if self._verifier is None:
                raise CommandError("this process takes no commands: it was started without a key")
            command = self._verifier.accept(packet.data)
        except (PacketError, CommandError) as refusal:
            self._refused += 1
            answer = Answer(counter, kind, Outcome.REFUSED, str(refusal))
        else:
            answer = self._carried_out(command)
            self._last = packet.data, answer
        self.queue.tell(Channel.ANSWERS, encode_answer(answer))
        return answer

    def tell_health(self) -> None:
        """Queues a health packet."""
        self.queue.tell(Channel.HEALTH, encode_health(self.health()))

    def health(self) -> Health:
        """How the process is."""
        guard, counts = self._guard, self._counts
        temperatures = [value for sensor in self._sensors if (value := sensor.read()) is not None]
        return Health(
            running_s=time.monotonic() - self._began,
            lines=self._lines,
            bad_lines=self._bad_lines,
            tiles=counts.tiles,
            flagged=counts.flagged,
            redone=counts.redone,
            corrected=counts.corrected,
            self_tests=counts.self_tests,
            self_tests_failed=counts.self_tests_failed,
            overtime=counts.overtime,
            accepted=self._accepted,
            refused=self._refused,
            dropped=self.queue.dropped,
            tile_ms=1e3 * counts.tile_s,
            slowest_tile_ms=1e3 * counts.slowest_tile_s,
            temperature_degc=max(temperatures, default=float("nan")),
            memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            threshold=self.threshold,
            mode=self._mode,
            healthy=int(guard is None or guard.healthy),
            model=bytes.fromhex(self.detector.manifest.sha256)[:8],
        )

    def packets(self, budget_bytes: int) -> Iterator[bytes]:
        """What may be sent now, the most important first."""
        return self.queue.take(budget_bytes)

    def _opened(self, package: ModelPackage) -> Detector:
        return Detector(package, self.settings.runtime, self.settings.threads, asked=Asked(level="visible"))

    def _begin_scene(self, width: int) -> LineStream:
        self._scene, self._plumes = self._scene + 1, 0
        stream = self.detector.stream(width, guard=self.settings.guard)
        self._guard = stream.guard
        if self._guard is not None:
            self._guard.counts = self._counts  # which go on when the model changes
        stream.rule = self._rule()
        stream.listener = self._take_block
        return stream

    def _rule(self) -> DecisionRule:
        return replace(self.detector.manifest.rule, threshold=self.threshold, core_sigmas=self.core_sigmas)

    def _take_block(self, block: StreamBlock) -> None:
        """Queues the plumes of finished lines and the raw blocks that hold plume pixels."""
        side = self.settings.raw_block
        for plume in block.plumes:
            self.queue.add_plume(plume, self._scene, self._plumes, side or 512)
            self._plumes += 1
        if side is None or self._stream is None:
            return
        rows, cols = block.mask.shape
        weight = np.where(block.mask, block.probability, 0.0)
        edges = [block.first_row, *range((block.first_row // side + 1) * side, block.first_row + rows, side)]
        for first, end in zip(edges, [*edges[1:], block.first_row + rows], strict=True):
            here = weight[first - block.first_row : end - block.first_row]
            if not here.any():
                continue
            held = self._stream.radiance_of(first, end)
            for left in range(0, cols, side):
                total = float(here[:, left : left + side].sum())
                if total > 0:
                    lines = tuple(pack_line(held[:, row, left : left + side]) for row in range(end - first))
                    self.queue.add_block(RawBlock(self._scene, first, left, lines, total))

    def _carried_out(self, command: Command) -> Answer:
        try:
            words = self._WORK[command.kind](self, command.body)
        except CommandError as refusal:
            self._refused += 1
            return Answer(command.counter, command.kind, Outcome.REFUSED, str(refusal))
        except Exception as failure:  # a command must never end the flight process
            _LOG.exception("command %s failed", command.kind.name)
            self._refused += 1
            return Answer(command.counter, command.kind, Outcome.FAILED, f"{type(failure).__name__}: {failure}")
        self._accepted += 1
        return Answer(command.counter, command.kind, Outcome.DONE, words)

    def _do_tell_health(self, _body: bytes) -> str:
        self.tell_health()
        return "health is on its way"

    def _do_threshold(self, body: bytes) -> str:
        (threshold,) = _unpacked(">f", body)
        if not 0.0 < threshold < 1.0:
            raise CommandError(f"a threshold must be between 0 and 1, got {threshold:g}")
        self._normal, self._mode = float(threshold), Mode.NORMAL
        return self._changed_rule()

    def _do_mode(self, body: bytes) -> str:
        mode = int(_unpacked(">B", body)[0])
        if mode not in tuple(Mode):
            raise CommandError(f"sensitivity mode {mode} is not known; known are 0 to {max(Mode)}")
        self._mode = Mode(mode)
        return self._changed_rule()

    def _do_core(self, body: bytes) -> str:
        (sigmas,) = _unpacked(">f", body)
        if not 0.0 <= sigmas < float("inf"):
            raise CommandError(f"a core's standard deviations must be 0 or more, got {sigmas:g}")
        name = self.detector.manifest.name
        if sigmas and self.detector.manifest.plane_facts is None:
            raise CommandError(f"{name} does not tell how sure it is of gas, so that plumes can have no core")
        self._core = float(sigmas)
        return self._changed_rule()

    def _changed_rule(self) -> str:
        if self._stream is not None:
            self._stream.rule = self._rule()
        core = "no core" if self.core_sigmas is None else f"core {self.core_sigmas:g} sigma"
        return f"mode {self._mode.name.lower()}, threshold {self.threshold:.4f}, {core}"

    def _do_budget(self, body: bytes) -> str:
        self.rate_bytes_s = int(_unpacked(">I", body)[0])
        return f"the link may carry {self.rate_bytes_s} bytes a second"

    def _do_begin(self, body: bytes) -> str:
        self._upload = Upload(UploadPlan.of(body))
        return f"upload {self._upload.plan.number} of {self._upload.plan.size} bytes may begin"

    def _do_piece(self, body: bytes) -> str:
        if self._upload is None:
            raise CommandError("no upload is under way")
        number, at, content = decode_piece(body)
        self._upload.take(number, at, content)
        return f"{len(content)} bytes at {at}; {sum(high - low for low, high in self._upload.missing)} are missing"

    def _do_finish(self, body: bytes) -> str:
        (number,) = _unpacked(">I", body)
        if number == self._finished:
            return f"{self.detector.manifest.name} runs already"
        if self._upload is None or self._upload.plan.number != number:
            raise CommandError(f"upload {number} is not under way")
        content, self._upload = self._upload.finished(), None
        package = self._store.add(content, self.detector.manifest)
        try:
            self._switch_to(package)
        except Exception:
            self._store.reject()
            raise
        self._store.approve()
        self._finished = number
        return f"{package.manifest.name} passed its self-test and runs"

    def _do_roll_back(self, body: bytes) -> str:
        (unwanted,) = _unpacked(">8s", body)
        if unwanted != bytes.fromhex(self.detector.manifest.sha256)[:8]:
            raise CommandError(f"model {unwanted.hex()} does not run; {self.detector.manifest.sha256[:16]} does")
        package = self._store.roll_back()
        self._switch_to(package)
        return f"{package.manifest.name} {package.manifest.sha256[:8]} runs again"

    def _switch_to(self, package: ModelPackage) -> None:
        """Runs another model from the next line on, if it passes its self-test; else the old one stays."""
        detector = self._opened(package)
        guard = detector.stream(detector.manifest.tile, guard=self.settings.guard or GuardSettings()).guard
        if guard is None or not guard.healthy or not guard.finds_plumes:
            raise CommandError(f"{package.manifest.name} failed its self-test; the model before it stays")
        self.end_scene()
        self.detector = detector

    def _do_self_test(self, _body: bytes) -> str:
        if self._guard is None:
            raise CommandError("no guarded stream has run yet that could be tested")
        right = self._guard.self_test()
        return "the known tile gave the known answer" if right else "the known tile gave another answer"

    _WORK: dict[CommandKind, Callable[[FlightProcess, bytes], str]] = {  # noqa: RUF012
        CommandKind.TELL_HEALTH: _do_tell_health,
        CommandKind.THRESHOLD: _do_threshold,
        CommandKind.MODE: _do_mode,
        CommandKind.CORE: _do_core,
        CommandKind.LINK_BUDGET: _do_budget,
        CommandKind.UPLOAD_BEGIN: _do_begin,
        CommandKind.UPLOAD_PIECE: _do_piece,
        CommandKind.UPLOAD_FINISH: _do_finish,
        CommandKind.ROLL_BACK: _do_roll_back,
        CommandKind.SELF_TEST: _do_self_test,
    }


def _unpacked(layout: str, body: bytes) -> tuple[Any, ...]:
    try:
        return struct.unpack(layout, body)
    except struct.error:
        raise CommandError(f"this command has {struct.calcsize(layout)} bytes of numbers, got {len(body)}") from None
