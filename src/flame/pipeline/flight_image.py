"""A model package as one file for the C library in `c/`: weights packed for the kernels, for one sensor's bands.

The layout is read by `c/src/model.c`: sections in a fixed order, little-endian, with a CRC-32.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from flame.detection import TileGrid
from flame.errors import FlameError
from flame.files import write_whole
from flame.filters.noise_aware import NoiseAwareSettings
from flame.filters.noise_aware.saturation import log_transmittance
from flame.kernels import TILE_STEP, pack
from flame.onboard import Asked, Manifest, ModelPackage
from flame.onboard.manifest import PlaneFacts
from flame.onboard.native.operator import pack_up
from flame.onboard.native.pyramid import levels_of
from flame.onboard.plane_backends import PlaneJudge, plane_arrays
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption
from flame.prepare.planes import FIELD_NAMES, MOST_SIGMA_PPM_M, band_weights, window_shares
from flame.prepare.planes.compiled import all_taps
from flame.prepare.planes.preparer import MOST_SHARE, TINY
from flame.prepare.planes.settings import WIDTHS_PX
from flame.prepare.planes.wavelengths import WINDOWS_NM

__all__ = ["FlightImageError", "flight_image", "write_flight_image"]

_MAGIC, _VERSION = b"FLMIMAGE", 4
_CHECKED_FROM = 20
_ALIGNED = 16
_DEPTH = 4

Arrays = Mapping[str, np.ndarray]


class FlightImageError(FlameError):
    """A model that the C library cannot run."""


def write_flight_image(package: ModelPackage, out: Path, bands: BandSet | None = None, tile: int | None = None) -> Path:
    """Writes the model image; arguments as in `flight_image`.

    Raises:
        FlightImageError: If the C library cannot run the model.
    """
    write_whole(out, flight_image(package, bands, tile))
    return out


def flight_image(package: ModelPackage, bands: BandSet | None = None, tile: int | None = None) -> bytes:
    """The model image.

    Args:
        package: A network of planes with the U-Net as its trunk.
        bands: Bands of the lines; those that the package was measured with unless given.
        tile: Side of the tile that is judged at once, in pixels; the package's unless given.

    Raises:
        FlightImageError: If the C library cannot run the model.
    """
    manifest, facts = package.manifest, package.manifest.plane_facts
    if facts is None or package.weights is None:
        raise FlightImageError(f"{package.source}: not a network of planes; the C library runs flame-plus alone")
    bands = manifest.bands if bands is None else bands
    tile = manifest.tile if tile is None else tile
    if tile % TILE_STEP:
        raise FlightImageError(f"tiles must be a multiple of {TILE_STEP} pixels, got {tile}")
    if not manifest.takes(bands):
        raise FlightImageError(f"{package.source}: {manifest.name} does not take bands {bands.describe()}")
    arrays = plane_arrays(package)
    if (levels := levels_of(arrays)) != _DEPTH:
        raise FlightImageError(
            f"{package.source}: its U-Net has {levels} levels; the C library takes those of {_DEPTH}, as flame-plus has"
        )
    try:
        sections = [
            _sizes(arrays, manifest, facts, bands, tile),
            _numbers(manifest, facts),
            *_of_bands(arrays, facts, bands),
            *_weights(arrays, facts),
        ]
    except (KeyError, ValueError, IndexError) as mistake:
        raise FlightImageError(
            f"{package.source}: the C library cannot take its weights ({mistake}); export the network again"
        ) from mistake
    return _joined(sections)


def _sizes(arrays: Arrays, manifest: Manifest, facts: PlaneFacts, bands: BandSet, tile: int) -> np.ndarray:
    widths = [len(arrays["lift.weight"])] + [len(arrays[f"backbone.down.{level}.0.weight"]) for level in range(_DEPTH)]
    how = NoiseAwareSettings()
    values = [
        *(
            tile,
            TileGrid.usual(tile).overlap,
            len(bands),
            len(arrays["functions"]),
            len(FIELD_NAMES),
            len(WINDOWS_NM),
            *widths,
        ),
        *(len(arrays["segmentation.0.weight"]), len(arrays["segmentation.2.weight"]), len(WIDTHS_PX)),
        *(facts.planes.anchors, how.sample_pixels, how.bins, how.levels, how.passes, how.neighbours),
        *(len(log_transmittance(bands)[0]), manifest.opening),
    ]
    return np.array(values, dtype="<i4")


def _numbers(manifest: Manifest, facts: PlaneFacts) -> np.ndarray:
    how, planes = NoiseAwareSettings(), facts.planes
    ground = how.background
    rule = Asked(level="visible").rule_of_lines(manifest)
    values = [
        *(planes.reference_ppm_m, manifest.tau_ppm_m, rule.threshold, rule.core_sigmas or 0.0),
        manifest.prepare.pixels.saturation_radiance,
        *(planes.clutter_clip, TINY, MOST_SIGMA_PPM_M, MOST_SHARE, *PlaneJudge(facts).held),
        *(how.plume_significance, how.smoothing_px, how.max_log_noise, ground.min_albedo, ground.max_albedo),
        -1.0 if ground.shrinkage is None else ground.shrinkage,
    ]
    return np.array(values, dtype="<f8")


def _of_bands(arrays: Arrays, facts: PlaneFacts, bands: BandSet) -> Iterator[np.ndarray]:
    """Everything that follows from the bands, and the Gaussians of the planes."""
    enhancement, logs = log_transmittance(bands)
    reach, taps = all_taps(facts.planes)
    yield unit_absorption(bands) / ABSORPTION_UNIT_PPM_M
    yield arrays["functions"].astype(np.float64) @ band_weights(bands)
    yield window_shares(bands)
    yield enhancement
    yield logs
    yield reach
    yield taps


def _weights(arrays: Arrays, facts: PlaneFacts) -> Iterator[np.ndarray]:
    """The network's weights in the order the kernels read them."""

    def flat(name: str) -> np.ndarray:
        weight = arrays[f"{name}.weight"]
        return weight.reshape(len(weight), -1)

    def convolution(name: str) -> Iterator[np.ndarray]:
        yield pack(flat(name))
        yield arrays[f"{name}.bias"]

    yield from convolution("lift")
    for level in range(_DEPTH):
        for layer in (0, 3):
            yield from convolution(f"backbone.down.{level}.{layer}")
    for number in range(_DEPTH):
        yield pack_up(arrays[f"backbone.up.{number}.weight"])
        yield arrays[f"backbone.up.{number}.bias"]
    yield pack(flat("backbone.beside"))
    heads = ("weight_head", "background_head")
    yield np.concatenate([pack(flat(head)) for head in heads])
    yield np.concatenate([arrays[f"{head}.bias"] for head in heads])
    yield pack(np.concatenate([flat("segmentation.0"), flat("of_fields")], axis=1))
    yield arrays["segmentation.0.bias"]
    yield from convolution("segmentation.2")
    rows = PlaneJudge(facts).rows
    yield rows @ flat("project")
    yield rows @ arrays["project.bias"]


def _joined(sections: list[np.ndarray]) -> bytes:
    """Header, table of sections, and the sections."""
    table, body = b"", b""
    begin = _CHECKED_FROM + 4 + 8 * len(sections)
    for section in sections:
        kind = section.dtype.newbyteorder("<")
        content = np.ascontiguousarray(section, dtype=kind).tobytes()
        body += b"\0" * (-(begin + len(body)) % _ALIGNED)
        table += struct.pack("<II", begin + len(body), len(content))
        body += content
    checked = struct.pack("<I", len(sections)) + table + body
    head = struct.pack("<8sIII", _MAGIC, _VERSION, _CHECKED_FROM + len(checked), zlib.crc32(checked))
    return head + checked
