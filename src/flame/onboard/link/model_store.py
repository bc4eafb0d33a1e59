"""Models on board: uploads in pieces, the model that runs, the last good one, and the one from the factory."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import zlib
from itertools import accumulate, pairwise
from pathlib import Path

from flame.files import whole_folder, write_json, write_whole
from flame.onboard.link.commands import CommandError, UploadPlan
from flame.onboard.manifest import Manifest, ModelError
from flame.onboard.package import ModelPackage, load_model

__all__ = ["ModelStore", "Upload", "bundle_model", "decode_piece", "encode_piece"]

_PIECE = struct.Struct(">II")
_MOST_BYTES = 64 << 20
_LENGTHS = struct.Struct(">III")


def bundle_model(package: ModelPackage) -> bytes:
    """A model as one thing to upload: lengths and contents of its three files, compressed. Same model, same bytes."""
    files = (package.onnx, package.manifest.to_json().encode(), package.weights or b"")
    return zlib.compress(_LENGTHS.pack(*map(len, files)) + b"".join(files), 9)


def _unbundled(content: bytes) -> ModelPackage:
    """The model in a bundle, verified.

    Raises:
        CommandError: If it is none.
    """
    try:
        files = zlib.decompressobj().decompress(content, _MOST_BYTES)
    except zlib.error as failure:
        raise CommandError(f"the upload is no model bundle: {failure}") from None
    if len(files) < _LENGTHS.size or _LENGTHS.size + sum(_LENGTHS.unpack_from(files)) != len(files):
        raise CommandError(f"the upload is no model bundle: its files are not the {len(files)} bytes that are there")
    edges = accumulate(_LENGTHS.unpack_from(files), initial=_LENGTHS.size)
    onnx, facts, weights = (files[low:high] for low, high in pairwise(edges))
    try:
        manifest = Manifest.from_json(facts.decode(), "uploaded manifest")
        return ModelPackage(manifest, onnx, "uploaded model", weights or None)
    except (ModelError, UnicodeDecodeError) as failure:
        raise CommandError(f"the uploaded model is refused: {failure}") from None


def encode_piece(number: int, at: int, content: bytes) -> bytes:
    """The body of UPLOAD_PIECE."""
    return _PIECE.pack(number, at) + content


def decode_piece(body: bytes) -> tuple[int, int, bytes]:
    """Upload, place and bytes of a piece."""
    if len(body) <= _PIECE.size:
        raise CommandError(f"a piece has more than {_PIECE.size} bytes, got {len(body)}")
    return *_PIECE.unpack_from(body), body[_PIECE.size :]


class Upload:
    """Pieces that arrive in any order, some twice.

    Args:
        plan: What is to come.
    """

    def __init__(self, plan: UploadPlan) -> None:
        if not 1 <= plan.size <= _MOST_BYTES:
            raise CommandError(f"an upload must have 1 to {_MOST_BYTES} bytes, got {plan.size}")
        self.plan = plan
        self._content = bytearray(plan.size)
        self._have: list[tuple[int, int]] = []

    def take(self, number: int, at: int, content: bytes) -> None:
        """Puts a piece into its place."""
        if number != self.plan.number:
            raise CommandError(f"the piece is of upload {number}, under way is {self.plan.number}")
        if at + len(content) > self.plan.size:
            raise CommandError(f"the piece ends at {at + len(content)}, beyond the {self.plan.size} of the upload")
        self._content[at : at + len(content)] = content
        spans = sorted([*self._have, (at, at + len(content))])
        merged = [spans[0]]
        for low, high in spans[1:]:
            if low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        self._have = merged

    @property
    def missing(self) -> list[tuple[int, int]]:
        """Stretches of bytes that have not come yet."""
        edges = [0, *(edge for span in self._have for edge in span), self.plan.size]
        return [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high]

    def finished(self) -> bytes:
        """The whole, if nothing is missing and its checksum is right."""
        if missing := self.missing:
            low, high = missing[0]
            raise CommandError(f"{len(missing)} stretches are missing, the first from byte {low} to {high}")
        if hashlib.sha256(self._content).digest() != self.plan.sha256:
            raise CommandError("the upload's SHA-256 is not the one it was announced with")
        return bytes(self._content)


class ModelStore:
    """The models on board.

    `current` names the model that runs; a model is `good` once its self-test has passed. After a restart, a model that
    never became good is left aside. The model from the factory is always there.

    Args:
        state: Folder for uploaded models.
        factory: The model to run where there is no other: a packaged name or a file.
    """

    def __init__(self, state: Path, factory: str | Path | None = None) -> None:
        self._folder = state / "models"
        self._record = self._folder / "store.json"
        self._factory = factory
        self._good: list[str] = []
        try:
            found = json.loads(self._record.read_text())
            self._good = [name for name in found["good"] if isinstance(name, str)]
        except (OSError, ValueError, KeyError, TypeError):
            self._good = []  # nothing was uploaded, or the record is damaged: the factory's model is safe
        self._trial: str | None = None

    def load(self) -> ModelPackage:
        """The last good model that is whole; what is not is forgotten."""
        while self._good:
            try:
                return load_model(self._folder / self._good[-1] / "model.onnx")
            except ModelError:
                self._good.pop()
                self._write()
        return load_model(self._factory)

    def add(self, content: bytes, like: Manifest) -> ModelPackage:
        """An uploaded model, on trial until `approve`.

        Args:
            content: The bundle.
            like: Manifest of the model that runs: the sensor stays the same.

        Raises:
            CommandError: If it is no whole model for this instrument.
        """
        package = _unbundled(content)
        new = package.manifest
        if new.band_centres_nm != like.band_centres_nm or ("rgb" in new.inputs) != ("rgb" in like.inputs):
            raise CommandError(
                f"the uploaded model takes {len(new.band_centres_nm)} bands"
                f"{' and RGB' if 'rgb' in new.inputs else ''}, which are not those of this instrument"
            )
        name = hashlib.sha256(content).hexdigest()[:16]
        with whole_folder(self._folder / name) as folder:
            write_whole(folder / "model.onnx", package.onnx)
            write_whole(folder / "model.json", new.to_json())
            if package.weights is not None:
                write_whole(folder / "model.safetensors", package.weights)
        self._trial = name
        return package

    def approve(self) -> None:
        """The model on trial passed its self-test: from now on it is the one to start with."""
        if self._trial is not None:
            before = [name for name in self._good if name != self._trial]
            self._good = [*before[-1:], self._trial]
            self._trial = None
            self._write()
            kept = {*self._good}
            for folder in self._folder.iterdir():
                if folder.is_dir() and folder.name not in kept:
                    shutil.rmtree(folder, ignore_errors=True)

    def reject(self) -> None:
        """The model on trial failed."""
        self._trial = None

    def roll_back(self) -> ModelPackage:
        """Leaves the newest model aside and gives the one before it, at last the factory's.

        Raises:
            CommandError: If the factory's runs already.
        """
        if not self._good:
            raise CommandError("the model from the factory runs already; there is none before it")
        self._good.pop()
        self._write()
        return self.load()

    def _write(self) -> None:
        write_json(self._record, {"good": self._good})
