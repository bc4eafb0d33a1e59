"""flame-plus, second generation: one network for every spectrometer, on the noise-aware filter's planes."""

from flame.models.plus.network import FlamePlus, PlaneBatch, PlusOutput, SpectralBatch
from flame.models.plus.settings import LEVELS_PPM_M, PlusSettings

__all__ = ["LEVELS_PPM_M", "FlamePlus", "PlaneBatch", "PlusOutput", "PlusSettings", "SpectralBatch"]
