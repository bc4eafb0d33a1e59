"""LabelledTile: a scene with the plume mask, and with the truth behind it when the tile was simulated."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32

from flame.errors import FlameError
from flame.scene import Scene

__all__ = ["LabelledTile", "PlumeSource", "TileError"]


class TileError(FlameError):
    """A labelled tile whose layers do not fit each other."""


@dataclass(frozen=True)
class PlumeSource:
    """One point source inside a tile.

    Attributes:
        row: Row of the source, in pixels from the top edge.
        col: Column of the source, in pixels from the left edge.
        emission_kg_h: Emission rate.
        wind_m_s: Wind speed at the source.
        wind_to_deg: Direction the wind blows to, clockwise from the tile's up direction.
    """

    row: float
    col: float
    emission_kg_h: float
    wind_m_s: float
    wind_to_deg: float


@dataclass(frozen=True, eq=False)
class LabelledTile:
    """A tile with its layers, all of the scene's size.

    Attributes:
        name: Identifier, unique within a data set; also the folder name on disk.
        scene: Radiance, bands, validity, RGB.
        label: True where an annotator would mark plume.
        enhancement_ppm_m: True methane enhancement, as a retrieval reports it; simulated tiles only.
        mag1c_ppm_m: A MAG1C product delivered with the tile, if there is one.
        emission_kg_h: Total emission rate of the plume if known (STARCOP's `qplume`), 0 for no plume.
        sources: The simulated sources; empty for real tiles.
    """

    name: str
    scene: Scene
    label: Bool[np.ndarray, "_row _col"]
    enhancement_ppm_m: Float32[np.ndarray, "_row _col"] | None = None
    mag1c_ppm_m: Float32[np.ndarray, "_row _col"] | None = None
    emission_kg_h: float | None = None
    sources: tuple[PlumeSource, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        for layer in ("label", "enhancement_ppm_m", "mag1c_ppm_m"):
            values = getattr(self, layer)
            if values is not None and values.shape != self.scene.shape:
                raise TileError(f"{self.name}: {layer} has shape {values.shape}, the scene {self.scene.shape}")

    @property
    def has_plume(self) -> bool:
        """Whether any valid pixel is labelled plume."""
        return bool((self.label & self.scene.valid).any())
