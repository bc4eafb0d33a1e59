"""Torch models: spectral layers, backbones, heads, FLAME, export."""

from flame.models.flame import Flame, FlameOutput
from flame.models.inputs import BatchPreparer, PreparedBatch, RawTile
from flame.models.settings import FlameSettings, ModelSettingsError
from flame.models.statistics import SpectralStatistics

__all__ = [
    "BatchPreparer",
    "Flame",
    "FlameOutput",
    "FlameSettings",
    "ModelSettingsError",
    "PreparedBatch",
    "RawTile",
    "SpectralStatistics",
]
