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
    """Radiance, colours and the pixels of its plumes.

    Attributes:
        radiance: In the model's bands.
        rgb: If the model takes it.
        valid: All pixels.
        plumes: Where methane is.
    """

    def __init__(
        self,
        radiance: Float32[np.ndarray, "band row col"],
        rgb: Float32[np.ndarray, "3 row col"] | None,
        plumes: Bool[np.ndarray, "row col"],
    ) -> None:
        self.radiance, self.rgb, self.plumes = radiance, rgb, plumes
        self.valid = np.ones(plumes.shape, dtype=np.bool_)

    def mirrored(self) -> KnownTile:
        """Left and right exchanged and 10 % brighter: other numbers in every buffer."""
        rgb = None if self.rgb is None else np.ascontiguousarray(self.rgb[:, :, ::-1]) * np.float32(1.1)
        radiance = np.ascontiguousarray(self.radiance[:, :, ::-1]) * np.float32(1.1)
        return KnownTile(radiance, rgb, self.plumes[:, ::-1])


def known_tile(manifest: Manifest, seed: int = 20_582) -> KnownTile:
    """The known tile of a model; smaller than its tile, since every self-test costs a whole one anyway.

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
    return KnownTile(np.exp(log).astype(np.float32), rgb, plumes)
