"""Decision rule, morphology, tiling, plume objects and metrics. NumPy only."""

from flame.detection.decision import CROSS, DecisionRule, plume_mask
from flame.detection.histogram import ScoreError, ScoreHistogram, ThresholdChoice
from flame.detection.metrics import PLUME_SIZE_EDGES, STRONG_EMISSION_KG_H, Evaluation, Metrics, PixelCounts

__all__ = [
    "CROSS",
    "PLUME_SIZE_EDGES",
    "STRONG_EMISSION_KG_H",
    "DecisionRule",
    "Evaluation",
    "Metrics",
    "PixelCounts",
    "ScoreError",
    "ScoreHistogram",
    "ThresholdChoice",
    "plume_mask",
]
