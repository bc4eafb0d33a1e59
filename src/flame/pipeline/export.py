"""From a trained run to a verified model package: exported, compared with torch on tiles, and only then written."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32

from flame.detection import plume_mask
from flame.errors import FlameError
from flame.models import BatchPreparer, Flame, RawTile
from flame.models.export import to_onnx
from flame.models.native_weights import native_weights
from flame.models.weights import StoredModel, load_model
from flame.onboard import (
    Detector,
    Manifest,
    ModelPackage,
    NetworkFacts,
    runs_natively,
    sha256_of,
    write_package,
)
from flame.physics import BandSet, sensor_of, unit_absorption
from flame.scene import Scene
from flame.simulate import preset, simulate_tile, tile_generator

__all__ = ["MAX_DIFFERENCE", "Agreement", "ExportError", "export_model", "runtimes", "verify"]

MAX_DIFFERENCE = 1e-4
"""Largest difference of any probability between torch and the package that is let through."""


class ExportError(FlameError):
    """A package that does not do what the trained model does."""


@dataclass(frozen=True)
class Agreement:
    """How well a package agrees with torch.

    Attributes:
        runtime: Engine that was compared.
        tiles: Tiles compared.
        max_difference: Largest difference of any probability.
        mask_differences: Pixels whose plume mask differs.
        plume_pixels: Plume pixels in torch's masks.
    """

    runtime: str
    tiles: int
    max_difference: float
    mask_differences: int
    plume_pixels: int


def export_model(
    run: Path,
    out: Path,
    tile: int = 512,
    name: str = "flame",
    scenes: Sequence[Scene] = (),
    notes: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> tuple[Path, list[Agreement]]:
    """Exports a run for one tile size and writes it with its manifest.

    Args:
        run: Run folder or model.safetensors.
        out: The ONNX file to write; its manifest goes beside it.
        tile: Side of the tile, in pixels.
        name: Name for the manifest.
        scenes: Scenes to compare on; simulated ones unless given.
        notes: What the manifest should say about training besides what the run recorded: data, commit.
        metrics: Figures of an evaluation for the manifest.

    Raises:
        ExportError: If the package and torch differ by 1e-4 in any probability, or in any pixel of a mask.
    """
    stored = load_model(run)
    given = [_top_left(scene, tile) for scene in scenes]
    package = _package(stored, tile, name, notes or {}, metrics or {}, str(out))
    compared = given or _simulated(package.manifest)
    agreements = [verify(stored, package, compared, runtime) for runtime in runtimes(package)]
    for found in agreements:
        if found.max_difference >= MAX_DIFFERENCE or found.mask_differences:
            raise ExportError(
                f"{out}: not written; on {found.runtime} probabilities differ from torch by up to "
                f"{found.max_difference:.1e} and {found.mask_differences} mask pixels differ"
            )
    return write_package(package, out), agreements


def _package(
    stored: StoredModel, tile: int, name: str, notes: Mapping[str, Any], metrics: Mapping[str, Any], source: str
) -> ModelPackage:
    kind, bands = stored.model.settings, stored.bands
    onnx, deployed = to_onnx(stored.model, tile)
    weights = native_weights(deployed)
    network = None if weights is None else NetworkFacts(sha256_of(weights), kind.tau_max)
    manifest = Manifest(
        name=name,
        sensor=sensor_of(bands) or "unknown",
        band_centres_nm=tuple(bands.centres_nm.tolist()),
        band_fwhm_nm=tuple(bands.fwhm_nm.tolist()),
        absorption=tuple(unit_absorption(bands).tolist()),
        tile=tile,
        inputs=deployed.inputs,
        row_block=deployed.row_block,
        tau_ppm_m=kind.tau_ppm_m,
        sha256=sha256_of(onnx),
        prepare=kind.prepare,
        network=network,
        training={**stored.provenance, **notes},
        metrics=metrics,
    )
    return ModelPackage(manifest, onnx, source, weights)


def _simulated(manifest: Manifest) -> list[Scene]:
    """Three simulated tiles, at least two of them with a plume, the last with a fifth of its pixels missing."""
    if manifest.sensor == "unknown":
        raise ExportError("the model's bands are of no sensor that can be simulated; give scenes to compare on")
    settings = preset("cluttered", size=manifest.tile, sensor_name=manifest.sensor)
    drawn = (simulate_tile(tile_generator(0, i), settings, f"check{i}").tile for i in count())
    first = next(drawn)
    scenes = [first.scene, *islice((tile.scene for tile in drawn if tile.label.any()), 2)]
    holes = np.random.default_rng(0).random(scenes[2].shape) < 0.2
    return [*scenes[:2], replace(scenes[2], valid=scenes[2].valid & ~holes)]


def runtimes(package: ModelPackage) -> list[str]:
    """Engines that this installation can compare a package on."""
    native = ["native"] if runs_natively(package) else []
    return ["onnxruntime", *(["openvino"] if find_spec("openvino") else []), *native]


def verify(stored: StoredModel, package: ModelPackage, scenes: Sequence[Scene], runtime: str) -> Agreement:
    """Runs scenes of one tile each through torch and through the package, and compares.

    Torch computes in double precision, so that what is compared is the package's error and not torch's own.
    """
    detector = Detector(package, runtime)
    exact = copy.deepcopy(stored.model).double()
    worst, mask_differences, plume_pixels = 0.0, 0, 0
    for scene in scenes:
        found = detector.run(scene)
        expected = _torch_probability(exact, stored.bands, scene)
        judged = found.usable
        worst = max(worst, float(np.abs(found.probability - expected)[judged].max(initial=0.0)))
        mask = plume_mask(expected, judged, package.manifest.rule)
        mask_differences += int((mask != found.mask).sum())
        plume_pixels += int(mask.sum())
    return Agreement(detector.runtime, len(scenes), worst, mask_differences, plume_pixels)


def _top_left(scene: Scene, tile: int) -> Scene:
    if scene.shape[0] < tile or scene.shape[1] < tile:
        raise ExportError(f"scenes to compare on must be at least {tile} x {tile} pixels, got {scene.shape}")
    here = slice(0, tile)
    rgb = None if scene.rgb is None else scene.rgb[:, here, here]
    return Scene(scene.radiance[:, here, here], scene.bands, scene.valid[here, here], rgb)


@torch.no_grad()
def _torch_probability(model: Flame, bands: BandSet, scene: Scene) -> Float32[np.ndarray, "row col"]:
    batch = BatchPreparer(model.settings, bands).prepare([RawTile.of(scene)]).to(torch.float64)
    return torch.sigmoid(model(batch.inputs).logit)[0].numpy().astype(np.float32)
