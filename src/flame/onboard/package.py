"""Model packages: an ONNX file with its manifest and native weights, found by name or path and verified before use."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from flame.files import write_whole
from flame.onboard.manifest import Manifest, ModelError
from flame.physics import BandMismatchError, BandSet

__all__ = [
    "DEFAULT_MODEL",
    "ModelPackage",
    "candidate_models",
    "choose_among",
    "choose_model",
    "load_model",
    "packaged_models",
    "sha256_of",
    "write_package",
]

WEIGHTS = ".safetensors"
"""Ending of the file with the native weights."""

DEFAULT_FAMILY = "flame-plus"
"""Where no model is named, the one of this family that fits a scene's bands."""

DEFAULT_MODEL = f"{DEFAULT_FAMILY}-aviris-ng"
"""The packaged model used where none is named."""


@dataclass(frozen=True, eq=False)
class ModelPackage:
    """A verified model.

    Attributes:
        manifest: What it expects.
        onnx: The graph, exactly the bytes whose checksum the manifest states.
        source: Where it was read from, for messages.
        weights: The folded weights for the native runtime as safetensors, verified too; None if the model has none.
    """

    manifest: Manifest
    onnx: bytes
    source: str
    weights: bytes | None = None

    def __post_init__(self) -> None:
        _verify(self.onnx, self.manifest.sha256, self.source)
        network = self.manifest.network
        if (network is None) != (self.weights is None):
            raise ModelError(
                f"{self.source}: native weights must come with their checksum in the manifest, and only so"
            )
        if network is not None and self.weights is not None:
            _verify(self.weights, network.sha256, f"native weights of {self.source}")


def _verify(content: bytes, stated: str, source: str) -> None:
    found = sha256_of(content)
    if found != stated:
        raise ModelError(
            f"{source}: SHA-256 is {found[:16]}... but the manifest states {stated[:16]}...; "
            "the file is damaged or belongs to another manifest, fetch or export both again"
        )


def sha256_of(content: bytes) -> str:
    """Checksum in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _folder() -> Path:
    return Path(str(files("flame.onboard") / "models"))


def packaged_models() -> dict[str, Path]:
    """Names and paths of the models inside the package."""
    return {path.stem: path for path in sorted(_folder().glob("*.onnx"))}


def load_model(which: str | Path | None = None) -> ModelPackage:
    """Loads and verifies a model.

    Args:
        which: A packaged name ("flame-plus-emit") or family ("flame-plus", of which the default or else the first is
            taken), the path of an ONNX file whose manifest stands beside it with the ending .json, or None for the
            default.

    Raises:
        ModelError: If it does not exist, has no manifest, or its checksum differs.
    """
    path = _path_of(which)
    onnx = _read(path, "model")
    manifest = Manifest.from_json(
        _read(path.with_suffix(".json"), "manifest").decode(errors="replace"), str(path.with_suffix(".json"))
    )
    weights = None if manifest.network is None else _read(path.with_suffix(WEIGHTS), "native weights")
    return ModelPackage(manifest, onnx, str(path), weights)


def _read(path: Path, what: str) -> bytes:
    if not path.is_file():
        known = ", ".join(packaged_models()) or "none in this installation"
        raise ModelError(
            f"no {what} at {path}; give an .onnx file with its .json manifest beside it, and its {WEIGHTS} file if the "
            f"manifest names one, or a packaged name ({known})"
        )
    return path.read_bytes()


def _family(which: str | Path | None) -> list[str]:
    """Names of the packaged models of a family, the default first."""
    family = DEFAULT_FAMILY if which is None else str(which)
    members = [name for name in packaged_models() if name.startswith(f"{family}-")]
    return sorted(members, key=lambda name: name != DEFAULT_MODEL)


def _path_of(which: str | Path | None) -> Path:
    which = DEFAULT_MODEL if which is None else which
    packaged = packaged_models()
    if str(which) in packaged:
        return packaged[str(which)]
    members = _family(which)
    return packaged[members[0]] if members and not Path(which).exists() else Path(which)


def choose_model(which: str | Path | None, bands: BandSet) -> ModelPackage:
    """The model to use for a scene: of a packaged family ("flame-plus", or None), the one made for its bands.

    Raises:
        BandMismatchError: If no model of the family fits; the message has both band lists.
        ModelError: As in `load_model`.
    """
    return choose_among(candidate_models(which), bands)


def candidate_models(which: str | Path | None) -> list[ModelPackage]:
    """The models among which a scene's bands choose: those of a packaged family, or the one that is named.

    Raises:
        ModelError: As in `load_model`.
    """
    return [load_model(name) for name in _family(which)] or [load_model(which)]


def choose_among(models: Sequence[ModelPackage], bands: BandSet) -> ModelPackage:
    """The first model that was made for these bands; a single one is taken as it is, the detector checks it.

    Raises:
        BandMismatchError: If several were given and none fits.
    """
    if len(models) == 1:
        return models[0]
    for model in models:
        if fitting_bands(bands, model.manifest.bands) is not None:
            return model
    raise BandMismatchError(models[0].manifest.bands, bands)


def fitting_bands(have: BandSet, need: BandSet, tolerance_nm: float = 1.0) -> list[int] | None:
    """Indices of the bands of `have` that are those of `need`, or None if any is missing."""
    chosen = [have.nearest(centre) for centre in need.centres_nm]
    if len(set(chosen)) < len(chosen):
        return None
    picked = BandSet(have.centres_nm[chosen], have.fwhm_nm[chosen])
    return chosen if picked.matches(need, tolerance_nm) else None


def write_package(package: ModelPackage, path: Path) -> Path:
    """Writes a model, its native weights and its manifest, each under a temporary name first, the manifest last."""
    path = path.with_suffix(".onnx")
    write_whole(path, package.onnx)
    if package.weights is not None:
        write_whole(path.with_suffix(WEIGHTS), package.weights)
    write_whole(path.with_suffix(".json"), package.manifest.to_json().encode())
    return path
