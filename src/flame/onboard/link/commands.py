"""Commands as bytes: what may be asked, a counter that only rises, an Ed25519 signature over all of it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from flame.errors import FlameError
from flame.files import write_whole
from flame.onboard.asked import USUAL_SENSITIVITY
from flame.onboard.link.health import Mode

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = [
    "Command",
    "CommandError",
    "CommandKind",
    "UploadPlan",
    "Verifier",
    "decode_command",
    "encode_command",
    "load_private_key",
    "load_public_key",
    "make_keys",
    "peek_command",
    "require_cryptography",
    "sensitivity_of",
    "threshold_of",
]

_HEAD = struct.Struct(">BBIQ")
_VERSION = 1
_SIGNATURE_BYTES = 64
_PLAN = struct.Struct(">II32s")
_SIGNED_FOR = b"flame command"
"""Said before what is signed, so that no signature made for something else is one of a command."""

_STEP_LOGIT = 2.0
"""How far the sensitive and the sure mode are from the threshold, in logits: odds of 7.4 to 1."""


class CommandError(FlameError):
    """A command that is not whole, not signed by the ground, not allowed or not possible; the message says which."""


class CommandKind(IntEnum):
    """What may be asked. The body of each is in docs/flight.md."""

    TELL_HEALTH = 1
    THRESHOLD = 2
    MODE = 3
    LINK_BUDGET = 4
    CORE = 5
    UPLOAD_BEGIN = 16
    UPLOAD_PIECE = 17
    UPLOAD_FINISH = 18
    ROLL_BACK = 19
    SELF_TEST = 20


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        kind: What is asked.
        counter: Higher than that of every command before it.
        body: Its numbers.
        spacecraft: Whom it is for.
    """

    kind: CommandKind
    counter: int
    body: bytes = b""
    spacecraft: int = 0


@dataclass(frozen=True)
class UploadPlan:
    """What is to be uploaded.

    Attributes:
        size: Bytes of the whole.
        number: Of the upload; its pieces carry it too.
        sha256: Checksum of the whole.
    """

    size: int
    number: int
    sha256: bytes

    def body(self) -> bytes:
        """As the body of UPLOAD_BEGIN."""
        return _PLAN.pack(self.size, self.number, self.sha256)

    @classmethod
    def of(cls, body: bytes) -> UploadPlan:
        """From the body of UPLOAD_BEGIN."""
        if len(body) != _PLAN.size:
            raise CommandError(f"an upload begins with {_PLAN.size} bytes, got {len(body)}")
        return cls(*_PLAN.unpack(body))


def encode_command(command: Command, key: Ed25519PrivateKey) -> bytes:
    """A signed command, to be sent as the data of a space packet.

    Raises:
        CommandError: If a number does not fit its field.
    """
    try:
        head = _HEAD.pack(_VERSION, command.kind, command.spacecraft, command.counter)
    except struct.error as mistake:
        raise CommandError(f"the command does not fit its fields: {mistake}") from None
    return head + command.body + key.sign(_SIGNED_FOR + head + command.body)


def peek_command(data: bytes) -> tuple[int, int]:
    """Counter and kind that a command claims to have, for answers; nothing is checked. (0, 255) if it is too short."""
    if len(data) < _HEAD.size:
        return 0, 255
    _, kind, _, counter = _HEAD.unpack_from(data)
    return counter, kind


def decode_command(data: bytes, key: Ed25519PublicKey) -> Command:
    """A command whose signature is right; nothing else of it is looked at before that is known.

    Raises:
        CommandError: If it is not whole, not signed with this key, or not known.
    """
    from cryptography.exceptions import InvalidSignature

    if len(data) < _HEAD.size + _SIGNATURE_BYTES:
        raise CommandError(f"a command has at least {_HEAD.size + _SIGNATURE_BYTES} bytes, got {len(data)}")
    signed, signature = data[:-_SIGNATURE_BYTES], data[-_SIGNATURE_BYTES:]
    try:
        key.verify(signature, _SIGNED_FOR + signed)
    except InvalidSignature:
        raise CommandError("the signature is not that of the ground") from None
    version, kind, spacecraft, counter = _HEAD.unpack_from(signed)
    if version != _VERSION:
        raise CommandError(f"commands of version {version} are not known, expected {_VERSION}")
    if kind not in tuple(CommandKind):
        raise CommandError(f"command {kind} is not known")
    return Command(CommandKind(kind), counter, signed[_HEAD.size :], spacecraft)


class Verifier:
    """Lets through what is signed, for this spacecraft, newer than all before, and allowed.

    The counter of the last command is kept in a file and written before the command is carried out, so that after a
    restart nothing old is taken again.

    Args:
        key: The ground's public key.
        state: Folder for the counter.
        spacecraft: Number of this spacecraft.
        allowed: Kinds that are carried out; all unless given.
    """

    def __init__(
        self,
        key: Ed25519PublicKey,
        state: Path,
        spacecraft: int = 0,
        allowed: frozenset[CommandKind] = frozenset(CommandKind),
    ) -> None:
        self._key, self._spacecraft, self._allowed = key, spacecraft, allowed
        self._file = state / "command-counter"
        self.last = self._read()

    def accept(self, data: bytes) -> Command:
        """The command, its counter used up.

        Raises:
            CommandError: With the reason it is refused for.
        """
        command = decode_command(data, self._key)
        if command.spacecraft != self._spacecraft:
            raise CommandError(f"the command is for spacecraft {command.spacecraft}, this is {self._spacecraft}")
        if command.counter <= self.last:
            raise CommandError(f"counter {command.counter} is not above {self.last}: replayed or out of order")
        if command.kind not in self._allowed:
            raise CommandError(f"{command.kind.name} is not allowed on this spacecraft")
        write_whole(self._file, f"{command.counter}\n")
        self.last = command.counter
        return command

    def _read(self) -> int:
        if not self._file.exists():
            return 0
        try:
            return int(self._file.read_text())
        except (ValueError, OSError) as failure:
            # To begin again at 0 would let every old command in.
            raise CommandError(
                f"{self._file}: cannot be read as a counter ({failure}); write the last counter that the ground used "
                "into it"
            ) from None


def threshold_of(mode: Mode, normal: float) -> float:
    """Threshold of a sensitivity mode: odds 7.4 times lower (sensitive) or higher (sure) than the normal ones."""
    if mode is Mode.NORMAL or not 0.0 < normal < 1.0:
        return normal
    shift = -_STEP_LOGIT if mode is Mode.SENSITIVE else _STEP_LOGIT
    return 1.0 / (1.0 + math.exp(-(math.log(normal / (1.0 - normal)) + shift)))


def sensitivity_of(mode: Mode) -> str:
    """The sensitivity of the ground whose core a mode takes; its threshold is the mode's own."""
    return {Mode.SENSITIVE: "high-recall", Mode.SURE: "high-precision"}.get(mode, USUAL_SENSITIVITY)


def make_keys(folder: Path) -> tuple[Path, Path]:
    """Writes a new pair of keys: `command-private.pem` stays on the ground, `command-public.pem` flies.

    Raises:
        CommandError: If there are keys already, or cryptography is not installed.
    """
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    private, public = folder / "command-private.pem", folder / "command-public.pem"
    if private.exists() or public.exists():
        raise CommandError(f"{folder}: has keys already; they are never written over, choose another folder")
    key = Ed25519PrivateKey.generate()
    write_whole(private, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    private.chmod(0o600)
    write_whole(public, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """The ground's key.

    Raises:
        CommandError: If the file is no Ed25519 private key.
    """
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = _loaded(path, lambda content: load_pem_private_key(content, None))
    if not isinstance(key, Ed25519PrivateKey):
        raise CommandError(f"{path}: is no Ed25519 key; `flame ground keys` makes a pair")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """The key that commands are checked against.

    Raises:
        CommandError: If the file is no Ed25519 public key.
    """
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = _loaded(path, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise CommandError(f"{path}: is no Ed25519 key; `flame ground keys` makes a pair")
    return key


def require_cryptography() -> None:
    """Says in one line what is missing where commands cannot be checked."""
    if find_spec("cryptography") is None:
        raise CommandError("commands need the package cryptography: pip install 'flame-methane[flight]'")


def _loaded(path: Path, load: Callable[[bytes], object]) -> object:
    try:
        return load(path.read_bytes())
    except (OSError, ValueError, TypeError) as failure:
        raise CommandError(f"{path}: cannot be read as a key ({failure}); `flame ground keys` makes a pair") from None
