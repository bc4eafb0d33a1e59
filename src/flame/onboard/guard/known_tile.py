"""A tile that is always the same: made from the model's own bands, with plumes in known places."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32

from flame.onboard.manifest import Manifest
from flame.physics import ABSORPTION_UNIT_PPM_M

__all__ = ["KnownTile", "known_tile"]

_SIDE = 96
_PLUME_PPM_M = 4000.0
_COMPONENTS = 4
"""Smooth spectra that the ground is mixed from."""


class KnownTile:
    """Radiance, colours and the pixels of its plumes: a small pattern, all that is kept, repeated over the tile.

    Args:
        radiance: The pattern in the model's bands.
        rgb: Its colours, if the model takes them.
        plumes: Where it has methane.
        side: Rows and columns of the tile.
    """

    def __init__(
        self,
        radiance: Float32[np.ndarray, "band row col"],
        rgb: Float32[np.ndarray, "3 row col"] | None,
        plumes: Bool[np.ndarray, "row col"],
        side: int,
    ) -> None:
        self._radiance, self._rgb, self._plumes, self._side = radiance, rgb, plumes, side

    @property
    def radiance(self) -> Float32[np.ndarray, "band row col"]:
        """The tile in the model's bands, made anew."""
        return self._repeated(self._radiance)

    @property
    def rgb(self) -> Float32[np.ndarray, "3 row col"] | None:
        """Its colours, if the model takes them."""
        return None if self._rgb is None else self._repeated(self._rgb)

    @property
    def plumes(self) -> Bool[np.ndarray, "row col"]:
        """Where methane is."""
        return self._repeated(self._plumes)

    @property
    def valid(self) -> Bool[np.ndarray, "row col"]:
        """All pixels."""
        return np.ones((self._side, self._side), dtype=np.bool_)

    def mirrored(self) -> KnownTile:
        """Left and right exchanged and 10 % brighter: other numbers in every buffer."""
        rgb = None if self._rgb is None else np.ascontiguousarray(self._rgb[:, :, ::-1]) * np.float32(1.1)
        radiance = np.ascontiguousarray(self._radiance[:, :, ::-1]) * np.float32(1.1)
        return KnownTile(radiance, rgb, self._plumes[:, ::-1], self._side)

    def _repeated(self, pattern: np.ndarray) -> np.ndarray:
        places = np.arange(self._side) % pattern.shape[-1]
        return np.ascontiguousarray(pattern[..., places[:, None], places])


def known_tile(manifest: Manifest, seed: int = 20_582) -> KnownTile:
    """The known tile of a model: as large as its tiles where the runtime has other buffers for smaller ones.

    Args:
        manifest: The model's facts.
        seed: Draws the ground and the noise.
    """
    rng = np.random.default_rng(seed)
    side, bands = min(_SIDE, manifest.tile), len(manifest.band_centres_nm)
    at = np.linspace(0.0, np.pi, bands)
    spectra = np.stack([np.cos(order * at) / (1 + order) for order in range(_COMPONENTS)])
    rows, cols = np.mgrid[:side, :side] / side
    fields = np.stack(
        [np.sin(2 * np.pi * (rng.uniform(1, 3) * rows + rng.uniform(1, 3) * cols) + k) for k in range(_COMPONENTS)]
    )
    plumes = np.zeros((side, side), dtype=np.bool_)
    for top, left in ((1, 1), (3, 5)):
        plumes[top * side // 8 : (top + 2) * side // 8, left * side // 8 : (left + 2) * side // 8] = True
    log = np.log(3.0) + 0.1 * np.einsum("kb,krc->brc", spectra, fields)
    log += 0.005 * rng.standard_normal((bands, side, side))
    log += np.array(manifest.absorption)[:, None, None] * plumes * (_PLUME_PPM_M / ABSORPTION_UNIT_PPM_M)
    rgb = None
    if "rgb" in manifest.inputs:
        rgb = (5.0 + fields[:3] + 0.05 * rng.standard_normal((3, side, side))).astype(np.float32)
    whole = side if manifest.plane_facts is None else manifest.tile
    return KnownTile(np.exp(log).astype(np.float32), rgb, plumes, whole)
