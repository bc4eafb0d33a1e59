"""Decision rule, morphology, tiling, plume objects and metrics. NumPy only."""

from flame.detection.decision import CROSS, DecisionRule, plume_mask
from flame.detection.histogram import ScoreError, ScoreHistogram, ThresholdChoice
from flame.detection.judge import RULES, SMOOTHING_PX, JudgedRow, ScoreJudge, judge_scores
from flame.detection.metrics import PLUME_SIZE_EDGES, STRONG_EMISSION_KG_H, Evaluation, Metrics, PixelCounts
from flame.detection.outline import PixelPolygon, outline
from flame.detection.plumes import Plume, PlumeTracker, find_plumes, measure_plume, plume_labels
from flame.detection.tiling import RowStitcher, Span, TileGrid, TilingError

__all__ = [
    "CROSS",
    "PLUME_SIZE_EDGES",
    "RULES",
    "SMOOTHING_PX",
    "STRONG_EMISSION_KG_H",
    "DecisionRule",
    "Evaluation",
    "JudgedRow",
    "Metrics",
    "PixelCounts",
    "PixelPolygon",
    "Plume",
    "PlumeTracker",
    "RowStitcher",
    "ScoreError",
    "ScoreHistogram",
    "ScoreJudge",
    "Span",
    "ThresholdChoice",
    "TileGrid",
    "TilingError",
    "find_plumes",
    "judge_scores",
    "measure_plume",
    "outline",
    "plume_labels",
    "plume_mask",
]
