"""The detection limit: how well a simulated set could be outlined if its background and noise were known.

Every detector has to guess what a pixel would look like without methane. This one is told: it has the true background
and the true noise of each value, so its enhancement map is the weighted least-squares one, unbiased and as precise as
the photons allow. It then averages in space, weighted by precision, over a Gaussian whose width was the best on other
tiles. Labels end where a plume disappears in the clutter of an annotator's map; the limit is told that level too, and
calls plume what exceeds it by a factor that was the best on other tiles. What it still misses is lost in photon noise
or in the annotator's smooth outline, and no method without this knowledge can expect to find it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32

from flame.detection import PixelCounts, ScoreHistogram
from flame.errors import FlameError
from flame.physics import ABSORPTION_UNIT_PPM_M, unit_absorption
from flame.simulate import LabelSettings, SimulatedTile
from flame.simulate.labels import average, visible_level
from flame.simulate.visibility import visible_noise

__all__ = [
    "FoldChoice",
    "LimitSettings",
    "LimitTable",
    "Retrieval",
    "edge_level",
    "limit_of",
    "limit_scores",
    "retrieve",
]

_FOLDS = 2


@dataclass(frozen=True)
class LimitSettings:
    """The ways of averaging that the limit chooses from.

    Attributes:
        scales_px: Standard deviations of the Gaussian average.
        cautions: How many standard deviations of its own average add to the outline's level; they protect dark ground.
    """

    scales_px: tuple[float, ...] = (0.7, 1.0, 1.3, 1.7)
    cautions: tuple[float, ...] = (0.0, 3.0, 6.0)


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Enhancement of each pixel with a known background.

    Attributes:
        enhancement_ppm_m: Weighted least-squares estimate; 0 where invalid.
        noise_ppm_m: Its standard deviation.
    """

    enhancement_ppm_m: Float32[np.ndarray, "row col"]
    noise_ppm_m: Float32[np.ndarray, "row col"]


def retrieve(simulated: SimulatedTile) -> Retrieval:
    """Least squares of `L / L_B - 1` on the unit absorption, each band weighted by its true noise.

    To first order that is the log-ratio of eq:log_beer_lambert, but it stays unbiased where the noise of a dark pixel
    reaches its radiance and a logarithm would turn noise into methane.
    """
    scene = simulated.tile.scene
    spectrum = (unit_absorption(scene.bands) / ABSORPTION_UNIT_PPM_M).astype(np.float32)
    background = np.maximum(simulated.background_radiance, np.float32(1e-6))
    target = spectrum[:, None, None] * background / simulated.noise_sigma
    residual = (scene.radiance - background) / simulated.noise_sigma
    precision = np.einsum("brc,brc->rc", target, target)
    estimate = np.einsum("brc,brc->rc", target, residual) / precision
    return Retrieval(np.where(scene.valid, estimate, np.float32(0)), 1.0 / np.sqrt(precision))


def edge_level(simulated: SimulatedTile, label: LabelSettings) -> Float32[np.ndarray, "row col"]:
    """The enhancement at which the annotator's outline runs, in ppm m, from the true background and noise.

    The noise is drawn afresh: the limit knows how strong it is, not what it was.
    """
    scene = simulated.tile.scene
    noise = np.random.default_rng(0).standard_normal(scene.radiance.shape, np.float32)
    plain = simulated.background_radiance + simulated.noise_sigma * noise
    clutter = visible_noise(plain, scene.valid, unit_absorption(scene.bands))
    return visible_level(average(np.zeros_like(clutter), clutter, scene.valid, label.eye_sigma_px), label)


def limit_scores(
    simulated: SimulatedTile, label: LabelSettings, settings: LimitSettings | None = None
) -> dict[tuple[float, float], Float32[np.ndarray, "row col"]]:
    """A score map for each scale and caution: averaged enhancement over the outline's level and over its own noise.

    Args:
        simulated: A tile with its truth.
        label: How its label was drawn.
        settings: Scales and cautions; defaults when not given.
    """
    settings = settings or LimitSettings()
    found = retrieve(simulated)
    level = edge_level(simulated, label)
    scores = {}
    for scale_px in settings.scales_px:
        seen = average(found.enhancement_ppm_m, found.noise_ppm_m, simulated.tile.scene.valid, scale_px)
        for caution in settings.cautions:
            scores[scale_px, caution] = seen.mean_ppm_m / np.hypot(level, np.float32(caution) * seen.noise_ppm_m)
    return scores


@dataclass(frozen=True)
class FoldChoice:
    """How one half of the tiles was judged, chosen on the other half."""

    scale_px: float
    caution: float
    threshold: float


@dataclass(eq=False)
class LimitTable:
    """Accumulates tiles and gives the limit by two-fold cross-validation; only histograms are kept."""

    _folds: tuple[dict[tuple[float, float], ScoreHistogram], ...] = field(
        default_factory=lambda: tuple({} for _ in range(_FOLDS))
    )
    _tiles: int = 0

    def add(
        self,
        scores: Mapping[tuple[float, float], Float32[np.ndarray, "row col"]],
        label: Bool[np.ndarray, "row col"],
        valid: Bool[np.ndarray, "row col"],
    ) -> None:
        """Adds one tile's `limit_scores`; tiles go to the folds in turn."""
        fold = self._folds[self._tiles % _FOLDS]
        for key, score in scores.items():
            fold[key] = fold.get(key, ScoreHistogram()) + ScoreHistogram.of(score, label, valid)
        self._tiles += 1

    def result(self) -> tuple[PixelCounts, tuple[FoldChoice, ...]]:
        """Counts over all tiles, each fold judged by what was best on the other, and what that was.

        Raises:
            FlameError: If a fold holds no plume pixel to choose by.
        """
        if any(not h.plume.any() for fold in self._folds for h in fold.values()) or not all(self._folds):
            raise FlameError(f"too few plumes among {self._tiles} tiles to choose how to smooth; take more tiles")
        counts, choices = PixelCounts(), []
        for index, fold in enumerate(self._folds):
            others = self._folds[1 - index]
            best = {key: histogram.best_threshold() for key, histogram in others.items()}
            key = max(best, key=lambda k: best[k].f1)
            counts += PixelCounts(*fold[key].counts(best[key].threshold))
            choices.append(FoldChoice(*key, best[key].threshold))
        return counts, tuple(choices)


def limit_of(
    tiles: Iterable[SimulatedTile], label: LabelSettings, settings: LimitSettings | None = None
) -> PixelCounts:
    """The limit of a set of tiles in memory."""
    table = LimitTable()
    for simulated in tiles:
        table.add(limit_scores(simulated, label, settings), simulated.tile.label, simulated.tile.scene.valid)
    return table.result()[0]
