"""Torch models: spectral layers, backbones, heads, FLAME, export."""

from flame.models.conditioning import BackgroundSettings, SpectralStatistics
from flame.models.flame import Flame, FlameOutput
from flame.models.settings import FlameSettings, ModelSettingsError

__all__ = ["BackgroundSettings", "Flame", "FlameOutput", "FlameSettings", "ModelSettingsError", "SpectralStatistics"]
