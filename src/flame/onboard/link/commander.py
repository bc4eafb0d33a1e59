"""The ground's side of commands: a counter that never falls, uploads in pieces that are sent until answered.

Every command may safely be sent again with a new counter: none does more the second time than the first.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flame.files import write_whole
from flame.onboard.link.channels import DEFAULT_APID, Channel, PacketMaker
from flame.onboard.link.commands import Command, CommandError, CommandKind, UploadPlan, encode_command
from flame.onboard.link.health import Answer, Mode, Outcome
from flame.onboard.link.model_store import encode_piece

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["Commander", "body_of"]

_PIECE_BYTES = 900


class Commander:
    """Signs and numbers commands.

    Args:
        key: The ground's key.
        counter: File with the last counter that was used; it is written before a command leaves.
        spacecraft: Whom commands are for.
        first_apid: First of the spacecraft's APIDs.
    """

    def __init__(
        self, key: Ed25519PrivateKey, counter: Path, spacecraft: int = 0, first_apid: int = DEFAULT_APID
    ) -> None:
        self._key, self._file, self._spacecraft = key, counter, spacecraft
        self._maker = PacketMaker(first_apid, timed=False)
        self.piece_bytes = _PIECE_BYTES

    def packet(self, kind: CommandKind, body: bytes = b"") -> tuple[int, bytes]:
        """Counter and space packet of a new command."""
        counter = self._used() + 1
        write_whole(self._file, f"{counter}\n")
        command = encode_command(Command(kind, counter, body, self._spacecraft), self._key)
        return counter, self._maker.make(Channel.COMMANDS, command)

    def ask(
        self,
        exchange: Callable[[bytes, int], Answer | None],
        kind: CommandKind,
        body: bytes = b"",
        tries: int = 8,
    ) -> Answer:
        """Sends a command until it is answered, each time with a new counter.

        Args:
            exchange: Sends a packet and waits a while for the answer to that counter.
            kind: What is asked.
            body: Its numbers.
            tries: How often it is sent at most.

        Raises:
            CommandError: If no answer comes.
        """
        for _ in range(tries):
            counter, packet = self.packet(kind, body)
            answer = exchange(packet, counter)
            if answer is not None:
                return answer
        raise CommandError(f"{kind.name} was sent {tries} times and never answered; is the spacecraft in view?")

    def upload(
        self,
        exchange: Callable[[bytes, int], Answer | None],
        content: bytes,
        on_piece: Callable[[int], None] = lambda _: None,
        tries: int = 8,
    ) -> Answer:
        """Uploads a model bundle and has it run.

        Args:
            exchange: As in `ask`.
            content: From `bundle_model`.
            on_piece: Called with the bytes that have been sent.
            tries: How often each piece is sent at most.

        Raises:
            CommandError: If a step is refused or never answered.
        """
        number = secrets.randbits(32)
        plan = UploadPlan(len(content), number, hashlib.sha256(content).digest())
        self._require(self.ask(exchange, CommandKind.UPLOAD_BEGIN, plan.body(), tries))
        for at in range(0, len(content), _PIECE_BYTES):
            piece = encode_piece(number, at, content[at : at + _PIECE_BYTES])
            self._require(self.ask(exchange, CommandKind.UPLOAD_PIECE, piece, tries))
            on_piece(min(at + _PIECE_BYTES, len(content)))
        return self._require(self.ask(exchange, CommandKind.UPLOAD_FINISH, struct.pack(">I", number), tries))

    @staticmethod
    def _require(answer: Answer) -> Answer:
        if answer.outcome is not Outcome.DONE:
            raise CommandError(f"{CommandKind(answer.kind).name} was {answer.outcome.name.lower()}: {answer.reason}")
        return answer

    def _used(self) -> int:
        try:
            return int(self._file.read_text())
        except FileNotFoundError:
            return 0
        except ValueError as mistake:
            raise CommandError(f"{self._file}: holds no counter ({mistake}); write the last one used into it") from None


def body_of(kind: CommandKind, value: str | None) -> bytes:
    """The body of a command from what a person typed.

    Raises:
        CommandError: If the command takes no such value.
    """
    try:
        if kind in (CommandKind.THRESHOLD, CommandKind.CORE):
            return struct.pack(">f", float(value or ""))
        if kind is CommandKind.LINK_BUDGET:
            return struct.pack(">I", int(value or ""))
        if kind is CommandKind.MODE:
            return struct.pack(">B", Mode[(value or "").upper()])
        if kind is CommandKind.ROLL_BACK:
            return struct.pack(">8s", bytes.fromhex((value or "").rjust(16, "-")))
    except (ValueError, KeyError, struct.error):
        known = ", ".join(mode.name.lower() for mode in Mode)
        wanted = {
            CommandKind.THRESHOLD: "a number between 0 and 1",
            CommandKind.CORE: "a number of standard deviations, 0 for no core",
            CommandKind.MODE: f"one of {known}",
            CommandKind.ROLL_BACK: "the first 16 digits of the checksum of the model that shall run no more",
        }
        raise CommandError(
            f"{kind.name.lower()} takes {wanted.get(kind, 'a number of bytes a second')}, got '{value or ''}'"
        ) from None
    if value is not None:
        raise CommandError(f"{kind.name.lower()} takes no value, got '{value}'")
    return b""
