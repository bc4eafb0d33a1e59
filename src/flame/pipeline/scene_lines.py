"""A scene as the lines of an instrument, for trying the flight process on the ground."""

from __future__ import annotations

from collections.abc import Iterator

from flame.onboard import Manifest, ModelError
from flame.onboard.link.line_frames import encode_line
from flame.onboard.package import band_mismatch, fitting_bands
from flame.scene import AnyScene

__all__ = ["scene_frames"]

_ROWS_AT_ONCE = 64


def scene_frames(scene: AnyScene, manifest: Manifest) -> Iterator[bytes]:
    """Line frames of a scene in the bands of a model; pixels marked invalid become NaN.

    Raises:
        BandMismatchError: If the scene lacks bands of the model.
        ModelError: If the model takes RGB and the scene has none.
    """
    where = scene.acquisition.source or "the scene"
    chosen = fitting_bands(scene.bands, manifest.bands)
    if chosen is None:
        raise band_mismatch(manifest.bands, scene.bands, where)
    if "rgb" in manifest.inputs and not scene.has_rgb:
        raise ModelError(f"{where} has no RGB, which {manifest.name} takes; give the visible bands too")
    for first in range(0, scene.shape[0], _ROWS_AT_ONCE):
        part = scene.rows(first, min(first + _ROWS_AT_ONCE, scene.shape[0]))
        radiance = part.radiance[chosen]
        radiance[:, ~part.valid] = float("nan")
        for row in range(radiance.shape[1]):
            yield encode_line(first + row, radiance[:, row], None if part.rgb is None else part.rgb[:, row])
