"""How far simulated tiles are from real ones: the figures that decide what a detector sees, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import numpy as np
from jaxtyping import Float

from flame.bench.calibration_filters import (
    PARTS,
    FilterTable,
    TileResponse,
    as_json,
    filter_figures,
    probes,
    respond_to,
)
from flame.errors import FlameError
from flame.io import starcop
from flame.physics import ABSORPTION_UNIT_PPM_M, BandSet, unit_absorption
from flame.pipeline.datasets import SimulationPlan, map_tiles
from flame.tile import LabelledTile

__all__ = [
    "Comparison",
    "TileFigures",
    "TileStatistics",
    "compare",
    "measure_folder",
    "measure_simulation",
    "measure_tile",
    "pool",
    "published_starcop",
]

EIGENVALUES_COMPARED = 20


@dataclass(frozen=True, eq=False)
class TileFigures:
    """Sums over the valid pixels of one tile, from which a data set's figures are pooled.

    Attributes:
        bands: The tile's bands.
        pixels: Number of valid pixels.
        total: Sum of radiance.
        product: Sum of radiance times radiance, band by band.
        noise_ppm_m: Noise of the matched filter with the tile's own covariance.
        plume_pixels: Number of valid pixels labelled plume.
        response: What the classical filters make of it.
    """

    bands: BandSet
    pixels: int
    total: Float[np.ndarray, " band"]
    product: Float[np.ndarray, "band band"]
    noise_ppm_m: float
    plume_pixels: int
    response: TileResponse


@dataclass(frozen=True, eq=False)
class TileStatistics:
    """Figures of a set of tiles.

    Attributes:
        source: Where they come from.
        wavelength_nm: Band centres.
        mean_radiance: Mean radiance of each band; only its shape is compared.
        eigenvalues: Eigenvalues of the mean of all tiles' covariances, over the mean radiance, falling.
        noise_ppm_m: Matched-filter noise of that mean covariance. It is no typical tile's: the mean is ruled by the
            most varied tiles.
        plume_pixel_share: Share of valid pixels labelled plume.
        plume_tile_share: Share of tiles with any such pixel.
        tile_noise_ppm_m: Matched-filter noise of each tile, if known.
        filters: What the classical filters reach on the tiles, if known.
    """

    source: str
    wavelength_nm: Float[np.ndarray, " band"]
    mean_radiance: Float[np.ndarray, " band"]
    eigenvalues: Float[np.ndarray, " band"]
    noise_ppm_m: float
    plume_pixel_share: float
    plume_tile_share: float
    tile_noise_ppm_m: Float[np.ndarray, " tile"] = field(default_factory=lambda: np.zeros(0))
    filters: FilterTable | None = None

    @property
    def condition_number(self) -> float:
        """Largest over smallest eigenvalue."""
        return float(self.eigenvalues[0] / self.eigenvalues[-1])


def matched_filter_noise(relative_covariance: Float[np.ndarray, "band band"], bands: BandSet) -> float:
    """Standard deviation of the matched filter's enhancement, `1 / sqrt(s' C^-1 s)`, in ppm m."""
    spectrum = unit_absorption(bands) / ABSORPTION_UNIT_PPM_M
    loaded = relative_covariance + 1e-12 * np.trace(relative_covariance) * np.eye(len(bands))
    return float(1.0 / np.sqrt(spectrum @ np.linalg.solve(loaded, spectrum)))


def measure_tile(tile: LabelledTile) -> TileFigures:
    """Sums over one tile, its radiance times pi over the cosine of the sun's angle where that is known.

    STARCOP's radiance is normalised in the same way, so that season and hour do not count as variety.
    """
    scene = tile.scene.methane()
    sun_deg = scene.acquisition.solar_zenith_deg
    values = scene.radiance[:, scene.valid].astype(np.float64) * np.pi / np.cos(np.deg2rad(sun_deg or 0.0))
    mean = values.mean(axis=1)
    relative = np.cov(values, bias=True) / np.outer(mean, mean)
    return TileFigures(
        scene.bands,
        values.shape[1],
        values.sum(axis=1),
        values @ values.T,
        matched_filter_noise(relative, scene.bands),
        int((tile.label & scene.valid).sum()),
        respond_to(tile),
    )


def _covariance(tile: TileFigures) -> Float[np.ndarray, "band band"]:
    mean = tile.total / tile.pixels
    return np.asarray(tile.product / tile.pixels - np.outer(mean, mean))


def pool(figures: Iterable[TileFigures], source: str) -> TileStatistics:
    """Figures of a set of tiles with the same bands."""
    tiles = list(figures)
    if not tiles:
        raise FlameError(f"{source}: no tile to measure")
    bands = tiles[0].bands
    if any(not tile.bands.matches(bands) for tile in tiles):
        raise FlameError(f"{source}: tiles of different bands cannot be pooled")
    pixels = sum(tile.pixels for tile in tiles)
    mean = np.sum([tile.total for tile in tiles], axis=0) / pixels
    covariance = np.mean([_covariance(tile) for tile in tiles], axis=0) / np.outer(mean, mean)
    noise = np.array([tile.noise_ppm_m for tile in tiles])
    return TileStatistics(
        source=source,
        wavelength_nm=bands.centres_nm,
        mean_radiance=mean,
        eigenvalues=np.maximum(np.linalg.eigvalsh(covariance)[::-1], 1e-12),
        noise_ppm_m=matched_filter_noise(covariance, bands),
        plume_pixel_share=sum(tile.plume_pixels for tile in tiles) / pixels,
        plume_tile_share=float(np.mean([tile.plume_pixels > 0 for tile in tiles])),
        tile_noise_ppm_m=noise,
        filters=filter_figures(tile.response for tile in tiles),
    )


def _measure_drawn(plan: SimulationPlan, index: int) -> TileFigures:
    return measure_tile(plan.draw(index).tile)


def measure_simulation(
    plan: SimulationPlan, workers: int | None = None, on_tile: Callable[[], None] | None = None
) -> TileStatistics:
    """Figures of a simulated data set, drawn in memory.

    Args:
        plan: What to draw.
        workers: Number of processes; by default one for each core.
        on_tile: Called after each tile, for a progress bar.
    """
    figures = []
    for tile in map_tiles(_measure_drawn, plan, workers):
        figures.append(tile)
        if on_tile is not None:
            on_tile()
    return pool(figures, f"simulated, {plan.preset}, {plan.tiles} tiles")


def measure_folder(folder: Path | str, split: str = "train") -> TileStatistics:
    """Figures of a data set in the STARCOP layout."""
    return pool((measure_tile(tile) for tile in starcop.read_dataset(folder, split).tiles()), str(folder))


def published_starcop() -> TileStatistics:
    """STARCOP's published figures, packaged with their source."""
    stored = json.loads((files("flame.bench") / "data" / "starcop.json").read_text(encoding="utf-8"))
    return TileStatistics(
        source="STARCOP, published",
        wavelength_nm=np.array(stored["wavelength_nm"]),
        mean_radiance=np.array(stored["mean_radiance"]),
        eigenvalues=np.array(stored["relative_covariance_eigenvalues"]),
        noise_ppm_m=stored["matched_filter_noise_ppm_m"],
        plume_pixel_share=stored["test_plume_pixel_share"],
        plume_tile_share=stored["plume_tile_share"],
        filters={part: tuple(probe.published[part] for probe in probes()) for part in PARTS},
    )


@dataclass(frozen=True, eq=False)
class Comparison:
    """Simulated against reference.

    Attributes:
        simulated: Figures of the simulated tiles.
        reference: Figures of the real ones.
        eigenvalue_ratios: Simulated over reference, the first 20.
        shape_error: Root mean square difference of log mean spectra, after removing the mean level.
        level_ratio: Simulated over reference level of the mean spectra.
    """

    simulated: TileStatistics
    reference: TileStatistics
    eigenvalue_ratios: Float[np.ndarray, " rank"]
    shape_error: float
    level_ratio: float

    @property
    def eigenvalue_worst_ratio(self) -> float:
        """The largest factor, up or down, between the first 20 eigenvalues."""
        return float(np.exp(np.abs(np.log(self.eigenvalue_ratios)).max()))

    def to_json(self) -> dict[str, object]:
        """What `flame simulate --check --json` writes."""
        ours, theirs = self.simulated, self.reference
        spread = np.quantile(ours.tile_noise_ppm_m, [0.1, 0.5, 0.9])
        return {
            "simulated": ours.source,
            "reference": theirs.source,
            "matched_filter_noise_ppm_m": ours.noise_ppm_m,
            "tile_matched_filter_noise_10_50_90_ppm_m": spread.tolist(),
            "reference_matched_filter_noise_ppm_m": theirs.noise_ppm_m,
            "eigenvalue_worst_ratio": self.eigenvalue_worst_ratio,
            "eigenvalue_ratios": self.eigenvalue_ratios.tolist(),
            "condition_number": ours.condition_number,
            "reference_condition_number": theirs.condition_number,
            "mean_spectrum_log_error": self.shape_error,
            "mean_level_ratio": self.level_ratio,
            "plume_pixel_share": ours.plume_pixel_share,
            "reference_plume_pixel_share": theirs.plume_pixel_share,
            "plume_tile_share": ours.plume_tile_share,
            "reference_plume_tile_share": theirs.plume_tile_share,
            "filters": [] if ours.filters is None or theirs.filters is None else as_json(ours.filters, theirs.filters),
        }


def compare(simulated: TileStatistics, reference: TileStatistics) -> Comparison:
    """Puts two sets of figures side by side."""
    count = min(EIGENVALUES_COMPARED, simulated.eigenvalues.size, reference.eigenvalues.size)
    theirs = np.interp(simulated.wavelength_nm, reference.wavelength_nm, np.log(reference.mean_radiance))
    difference = np.log(simulated.mean_radiance) - theirs
    return Comparison(
        simulated,
        reference,
        simulated.eigenvalues[:count] / reference.eigenvalues[:count],
        float(np.std(difference)),
        float(np.exp(difference.mean())),
    )
