"""Which detector a scene gets: the model made for its bands, or the filter that takes any."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from flame.onboard.asked import Asked
from flame.onboard.backends import check_runtime
from flame.onboard.detector import Detector
from flame.onboard.filter_detector import FILTER_MODEL, FilterDetector
from flame.onboard.manifest import Manifest, ModelError
from flame.onboard.package import candidate_manifests, choose_model
from flame.physics import BandMismatchError, BandSet

__all__ = ["Detectors"]


class Detectors:
    """Detectors by model, opened when a scene first needs one.

    Args:
        model: A packaged name or family, the path of an ONNX file, "noise-aware-mf" for the filter that takes any
            bands, or None for the default family and, where that does not fit, the filter.
        runtime: "auto", "native", "onnxruntime" or "openvino".
        threads: CPU threads; all unless given.
        asked: Sensitivity, threshold, level and core; the model's own unless given.

    Raises:
        ModelError: If there is no such model or runtime, or it cannot do what is asked.
    """

    def __init__(
        self,
        model: str | None = None,
        runtime: str = "auto",
        threads: int | None = None,
        asked: Asked | None = None,
    ) -> None:
        check_runtime(runtime)
        self._model, self._runtime, self._threads = model, runtime, threads
        self._asked = asked or Asked()
        self._open: dict[str, Detector] = {}
        own = [] if model == FILTER_MODEL else candidate_manifests(model)
        _check(self._asked, own)
        keys = [self._asked.key(manifest.key) for manifest in own]
        if model == FILTER_MODEL or (model is None and FilterDetector.can(self._asked)):
            keys.append(FilterDetector(self._asked).identity.key)
        self.keys = frozenset(keys)

    def __reduce__(self) -> tuple[Any, ...]:
        """To another process go the names alone; there, all tasks share one of these."""
        model = self._model
        if model is not None and Path(model).exists():
            model = str(Path(model).absolute())
        return _shared, (model, self._runtime, self._threads, self._asked)

    def for_bands(self, bands: BandSet, where: str = "the scene") -> Detector | FilterDetector:
        """The detector whose model was made for these bands.

        Where no model is named and no packaged one fits, it is the noise-aware filter, which takes any bands.

        Args:
            bands: Bands of the scene.
            where: Names the scene in messages.

        Raises:
            BandMismatchError: If a model is named and none of that name fits.
            ModelError: If the filter would have to do what only a model can: a sensitivity, a level or a core.
        """
        if self._model == FILTER_MODEL:
            return FilterDetector(self._asked)
        try:
            package = choose_model(self._model, bands, where)
        except BandMismatchError:
            if self._model is None:
                return FilterDetector(self._asked)
            raise
        key = f"{package.manifest.sha256} {package.manifest.bands.describe()}"
        if key not in self._open:
            self._open[key] = Detector(package, self._runtime, self._threads, asked=self._asked)
        return self._open[key]


def _check(asked: Asked, manifests: Sequence[Manifest]) -> None:
    """Refuses what none of the models that may be meant can do."""
    refusals = []
    for manifest in manifests:
        try:
            asked.check(manifest)
        except ModelError as refusal:
            refusals.append(refusal)
    if refusals and len(refusals) == len(manifests):
        raise refusals[0]


@lru_cache(maxsize=4)
def _shared(model: str | None, runtime: str, threads: int | None, asked: Asked) -> Detectors:
    return Detectors(model, runtime, threads, asked)
