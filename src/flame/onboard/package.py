"""Model packages: an ONNX file with its manifest and native weights, found by name or path and verified before use."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from flame.files import write_whole
from flame.onboard.manifest import Manifest, ModelError
from flame.physics import METHANE_WINDOW_NM, BandMismatchError, BandSet

__all__ = [
    "DEFAULT_FAMILY",
    "DEFAULT_MODEL",
    "ModelPackage",
    "candidate_manifests",
    "choose_model",
    "load_model",
    "packaged_models",
    "sha256_of",
    "write_package",
]

WEIGHTS = ".safetensors"
"""Ending of the file with the native weights."""

_UNNAMED = "the scene"

DEFAULT_FAMILY = "flame-plus"
"""Where no model is named, the one of this family that fits a scene's bands."""

DEFAULT_MODEL = DEFAULT_FAMILY
"""The packaged model used where none is named."""

_KEPT = 8
"""Models that stay loaded: a batch of scenes reads and checks each of its models once."""


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
                f"{self.source}: native weights and their checksum in the manifest must be both present or both absent"
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
        which: A packaged name ("flame-plus") or the family of several, of which the default or else the first is
            taken, the path of an ONNX file whose manifest stands beside it with the ending .json, or None for the
            default.

    Raises:
        ModelError: If it does not exist, has no manifest, or its checksum differs.
    """
    return _load(_path_of(which))


def _load(path: Path) -> ModelPackage:
    onnx = _read(path, "model")
    manifest = _manifest_of(path)
    weights = None if manifest.network is None else _read(path.with_suffix(WEIGHTS), "native weights")
    return ModelPackage(manifest, onnx, str(path), weights)


_Stamp = tuple[int, int, int]


def _stamp(path: Path) -> _Stamp | None:
    """What changes when a file does: size, time and place; None if it is not there."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _kept(path: Path) -> ModelPackage:
    """A model that is not read again unless one of its files has changed."""
    return _loaded(path, tuple(_stamp(path.with_suffix(ending)) for ending in (path.suffix, ".json", WEIGHTS)))


@lru_cache(maxsize=_KEPT)
def _loaded(path: Path, _stamps: tuple[_Stamp | None, ...]) -> ModelPackage:
    return _load(path)


def _manifest_of(path: Path) -> Manifest:
    """The manifest of a model, read again only if it has changed."""
    beside = path.with_suffix(".json")
    return _read_manifest(beside, _stamp(beside))


@lru_cache(maxsize=_KEPT)
def _read_manifest(path: Path, _stamp: _Stamp | None) -> Manifest:
    try:
        return Manifest.from_json(_read(path, "manifest").decode(), str(path))
    except UnicodeDecodeError as mistake:
        raise ModelError(f"{path}: not UTF-8 text ({mistake.reason}); a manifest was expected") from None


def _read(path: Path, what: str) -> bytes:
    if not path.is_file():
        known = ", ".join(packaged_models()) or "none in this installation"
        raise ModelError(
            f"no {what} at {path}; give an .onnx file with its .json manifest beside it, and its {WEIGHTS} file if the "
            f"manifest names one, or a packaged name ({known})"
        )
    return path.read_bytes()


def _family(which: str | Path | None) -> list[str]:
    """Names of the packaged models of a family: those made for one sensor first, then the one for all."""
    family = DEFAULT_FAMILY if which is None else str(which)
    members = [name for name in packaged_models() if name == family or name.startswith(f"{family}-")]
    return sorted(members, key=lambda name: name == family)


def _path_of(which: str | Path | None) -> Path:
    which = DEFAULT_MODEL if which is None else which
    packaged = packaged_models()
    if str(which) in packaged:
        return packaged[str(which)]
    members = _family(which)
    return packaged[members[0]] if members and not Path(which).exists() else Path(which)


def candidate_manifests(which: str | Path | None) -> list[Manifest]:
    """The manifests among which `choose_model` chooses: those of a packaged family, or of the model that is named.

    Raises:
        ModelError: As in `load_model`.
    """
    packaged = packaged_models()
    return [_manifest_of(packaged[name]) for name in _family(which)] or [load_model(which).manifest]


def choose_model(which: str | Path | None, bands: BandSet, where: str = _UNNAMED) -> ModelPackage:
    """The model to use for a scene: of a packaged family ("flame-plus", or None), the one made for its bands.

    Models stay loaded for the scenes that follow, and of those that do not fit only the manifest is read.

    Args:
        which: As in `load_model`.
        bands: Bands of the scene.
        where: The scene's file, for the message.

    Raises:
        BandMismatchError: If no model of the family fits; the message has both band lists and says what to do.
        ModelError: As in `load_model`.
    """
    members = _family(which)
    if not members:
        package = _kept(_path_of(which))
        return opened_for(package, bands) if package.manifest.takes(bands) else package
    packaged = packaged_models()
    manifests = {name: _manifest_of(packaged[name]) for name in members}
    for name, manifest in manifests.items():
        if manifest.plane_facts is None and fitting_bands(bands, manifest.bands) is not None:
            return _kept(packaged[name])
        if manifest.takes(bands):
            return opened_for(_kept(packaged[name]), bands)
    nearest = min((manifest.bands for manifest in manifests.values()), key=partial(_apart_nm, bands))
    raise band_mismatch(nearest, bands, where)


def opened_for(package: ModelPackage, bands: BandSet) -> ModelPackage:
    """A network of planes for the bands of a spectrometer."""
    return replace(package, manifest=package.manifest.for_bands(bands.methane()))


def band_mismatch(expected: BandSet, got: BandSet, where: str) -> BandMismatchError:
    """The error for a scene that a model cannot take: it lists the packaged models and says what else can be done."""
    scene_file = "INPUT" if where == _UNNAMED else shlex.quote(where)
    packaged = {name: _manifest_of(path) for name, path in packaged_models().items()}
    ordered = sorted(packaged.items(), key=lambda entry: _apart_nm(got, entry[1].bands))
    lines = [f"\n  {name}: {_wanted(manifest, got)}" for name, manifest in ordered]
    return BandMismatchError(
        expected,
        got.methane() if got.within(*METHANE_WINDOW_NM).any() else got,
        where,
        f"Packaged models, the nearest first:{''.join(lines)}\n"
        f"A classical filter takes any bands: flame filter mag1c {scene_file} --out enhancement.tif\n"
        "A model for these bands can be made with flame simulate, flame train and flame export.",
    )


def _wanted(manifest: Manifest, got: BandSet) -> str:
    """What bands a model takes."""
    facts, need = manifest.plane_facts, manifest.bands
    if facts is not None:
        low, high = METHANE_WINDOW_NM
        return (
            f"any {facts.fewest_bands} or more bands within {low:.0f}-{high:.0f} nm, at most "
            f"{facts.widest_step_nm:g} nm apart"
        )
    span = f"{need.centres_nm[0]:.0f}-{need.centres_nm[-1]:.0f} nm"
    return f"{len(need)} bands {span}, on average {_apart_nm(got, need):.1f} nm from these"


def _apart_nm(have: BandSet, need: BandSet) -> float:
    """How far the needed bands are from those there are, in centre or width, on average."""
    near = [have.nearest(centre) for centre in need.centres_nm]
    centres_nm = np.abs(have.centres_nm[near] - need.centres_nm)
    return float(np.maximum(centres_nm, np.abs(have.fwhm_nm[near] - need.fwhm_nm)).mean())


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
