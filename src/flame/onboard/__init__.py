"""The torch-free flight runtime: model package, inference session, tile stream, profiling."""

from flame.onboard.asked import SENSITIVITIES, Asked
from flame.onboard.backends import RUNTIMES, Backend, check_runtime, open_backend, runs_natively
from flame.onboard.detector import Detection, Detector, DetectorIdentity
from flame.onboard.detectors import Detectors
from flame.onboard.filter_detector import FILTER_MODEL, FilterDetector
from flame.onboard.guard import GuardSettings
from flame.onboard.manifest import Manifest, ModelError, NetworkFacts, OperatingPoint, PlaneFacts
from flame.onboard.package import (
    DEFAULT_FAMILY,
    DEFAULT_MODEL,
    ModelPackage,
    choose_model,
    load_model,
    packaged_models,
    sha256_of,
    write_package,
)
from flame.onboard.stream import LineStream, StreamBlock, StreamError
from flame.onboard.strip import TileReport, Timings
from flame.prepare import UNUSABLE, Quality

__all__ = [
    "DEFAULT_FAMILY",
    "DEFAULT_MODEL",
    "FILTER_MODEL",
    "RUNTIMES",
    "SENSITIVITIES",
    "UNUSABLE",
    "Asked",
    "Backend",
    "Detection",
    "Detector",
    "DetectorIdentity",
    "Detectors",
    "FilterDetector",
    "GuardSettings",
    "LineStream",
    "Manifest",
    "ModelError",
    "ModelPackage",
    "NetworkFacts",
    "OperatingPoint",
    "PlaneFacts",
    "Quality",
    "StreamBlock",
    "StreamError",
    "TileReport",
    "Timings",
    "check_runtime",
    "choose_model",
    "load_model",
    "open_backend",
    "packaged_models",
    "runs_natively",
    "sha256_of",
    "write_package",
]
