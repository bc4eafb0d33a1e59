"""Tiles for the second flame-plus: every sensor, drawn afresh for every step, from simulated and real ground."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64
from scipy.ndimage import gaussian_filter
from torch import Tensor

from flame.errors import FlameError
from flame.kernels import Kernels, load_kernels
from flame.models.plus import SpectralBatch
from flame.physics import BandSet, sensor
from flame.prepare.planes import (
    FIELD_NAMES,
    GRID_NM,
    PlaneSettings,
    PlaneTile,
    SpectralView,
    band_weights,
    prepare_planes,
)
from flame.prepare.planes.compiled import CompiledPlanes, room_for_planes
from flame.simulate import FreshTiles, NoisePool, PlumePool
from flame.simulate.backgrounds import Background
from flame.simulate.foreign import ForeignSettings
from flame.simulate.fresh import FreshTile
from flame.simulate.own_noise import OwnNoiseSettings
from flame.simulate.respectral import RespectralSettings
from flame.simulate.settings import FreshSettings, InstrumentSettings, Range

__all__ = ["SENSOR_SHARES", "FreshBatch", "FreshSource", "SensorShare", "draw_batch", "own_weights"]

_LABEL_SMOOTHING_PX = 0.5
_TRIES = 20
_FOREIGN_ON_REAL = 0.15
"""Real ground has foreign things enough: with more of them faint gas is no longer believed."""


@dataclass(frozen=True)
class SensorShare:
    """How often tiles of a sensor are drawn; no name stands for bands nobody has."""

    name: str | None
    share: float


SENSOR_SHARES = (
    SensorShare("aviris-ng", 0.34),
    SensorShare("emit", 0.19),
    SensorShare("enmap", 0.11),
    SensorShare("prisma", 0.10),
    SensorShare("tanager-1", 0.09),
    SensorShare("aviris-3", 0.08),
    SensorShare("generic-10nm", 0.02),
    SensorShare(None, 0.07),
)


@dataclass(frozen=True, eq=False)
class FreshBatch:
    """Tiles of one sensor, prepared, with their truth.

    Attributes:
        spectra: Their spectra; of no band at all if the source gives none.
        fields, windows, estimate_ppm_m, sigma_ppm_m, usable: Their planes.
        valid: Pixels that were seen; those that are too dark to tell are among them, and part of a plume too.
        enhancement_ppm_m: The truth.
        smooth_ppm_m: The truth as levels are drawn on it.
        outline: What an annotator would outline.
    """

    spectra: SpectralBatch
    fields: Float32[Tensor, "batch field row col"]
    windows: Float32[Tensor, "batch window row col"]
    estimate_ppm_m: Float32[Tensor, "batch row col"]
    sigma_ppm_m: Float32[Tensor, "batch row col"]
    usable: Bool[Tensor, "batch row col"]
    valid: Bool[Tensor, "batch row col"]
    enhancement_ppm_m: Float32[Tensor, "batch row col"]
    smooth_ppm_m: Float32[Tensor, "batch row col"]
    outline: Bool[Tensor, "batch row col"]

    def turned(self, quarters: int, mirror: bool) -> FreshBatch:
        """The same tiles, turned and mirrored."""

        def turn(layer: Tensor) -> Tensor:
            if layer.ndim < 3:
                return layer
            other = layer.flip(-1) if mirror else layer
            return torch.rot90(other, quarters, (-2, -1)).contiguous()

        spectra = SpectralBatch(**{name: turn(layer) for name, layer in vars(self.spectra).items()})
        rest = {name: turn(layer) for name, layer in vars(self).items() if name != "spectra"}
        return FreshBatch(spectra=spectra, **rest)


@dataclass(frozen=True, eq=False)
class FreshSource:
    """Everything that tiles are drawn from.

    Attributes:
        simulated: Simulated ground, of one size.
        real: Real ground by sensor, of one size each.
        plumes: Plume columns, one pool for each pixel size.
        noise: Noise.
        real_share: How often real ground is taken where a sensor has any.
        settings: How ground is changed.
        planes: How planes are made.
        sensors: How often tiles of each sensor are drawn.
        fixed_bands: Whether learned functions have a value for each band of the one sensor there is, in place of one
            for each wavelength; for ablations, because such a network serves no other sensor.
        respectral: How the spectra of real ground are changed; None: not at all.
        donor_chance: How often a pattern wears the spectra of another ground: a real one those of any, a simulated one
            those of a real one.
        spectra: Whether tiles come with their spectra, which only functions of wavelength need.
    """

    simulated: Sequence[Background]
    real: Mapping[str, Sequence[Background]]
    plumes: Sequence[PlumePool]
    noise: NoisePool
    real_share: float = 0.3
    settings: FreshSettings = field(
        default_factory=lambda: FreshSettings(
            plume_snr=Range(0.2, 15.0, log=True),
            plume_follows_noise=False,
            foreign=ForeignSettings(chance=0.4),
            faults=InstrumentSettings(map_chance=0.4, samples_per_pixel=Range(0.65, 0.95), edge_chance=0.1),
        )
    )
    planes: PlaneSettings = field(default_factory=PlaneSettings)
    sensors: Sequence[SensorShare] = SENSOR_SHARES
    fixed_bands: bool = False
    respectral: RespectralSettings | None = field(default_factory=RespectralSettings)
    donor_chance: float = 0.0
    spectra: bool = True

    @property
    def largest(self) -> int:
        """Side of the largest tile that all ground has room for."""
        grounds = [*self.simulated, *(ground for each in self.real.values() for ground in each)]
        return min(int(min(ground.valid.shape)) for ground in grounds)

    def with_methane_like(self, share: float) -> FreshSource:
        """The same, a share of its foreign things absorbing like methane."""
        strange = self.settings.foreign
        if strange is None:
            return self
        return replace(self, settings=replace(self.settings, foreign=replace(strange, methane_like=share)))

    def with_own_noise(self, chance: float) -> FreshSource:
        """The same, its ground having noise of its own with this chance; real ground, which has some, half as often."""
        own = OwnNoiseSettings(chance=chance) if chance else None
        return replace(self, settings=replace(self.settings, own_noise=own))

    def ground(
        self, rng: np.random.Generator, name: str | None, size: int
    ) -> tuple[tuple[Background, ...], FreshSettings, Background | None]:
        """Parts of some ground of one kind, how it is to be changed, and the ground whose spectra it may wear."""
        real = self.real.get(name or "", ())
        chosen, settings = self.simulated, replace(self.settings, donor_chance=self.donor_chance)
        if real and rng.uniform() < self.real_share:
            usual = settings
            strange = usual.foreign and replace(usual.foreign, chance=_FOREIGN_ON_REAL)
            own = usual.own_noise and replace(usual.own_noise, chance=usual.own_noise.chance / 2)
            chosen = real
            settings = replace(usual, foreign=strange, respectral=self.respectral, own_noise=own)
        donor = None
        if real and self.donor_chance:
            donor = _part(rng, real if chosen is self.simulated or rng.uniform() < 0.5 else self.simulated, size)
        # The second one may take the place of a part of the first.
        return tuple(_part(rng, chosen, size) for _ in range(2)), settings, donor

    def pool(self, pixel_m: float) -> PlumePool:
        """The plumes whose pixels are the nearest in size."""
        return min(self.plumes, key=lambda pool: abs(np.log(pool.pixel_m / pixel_m)))


def _part(rng: np.random.Generator, grounds: Sequence[Background], size: int) -> Background:
    whole = grounds[int(rng.integers(len(grounds)))]
    row, col = (int(rng.integers(side - size + 1)) for side in whole.valid.shape)
    return whole.cut(row, col, size)


def _random_bands(rng: np.random.Generator) -> BandSet:
    """Bands of a spectrometer that nobody has built."""
    step = float(rng.uniform(4.8, 12.0))
    centres = np.arange(2122.0 + rng.uniform(0, step), 2484.0, step)
    return BandSet(centres, np.full(centres.size, max(4.5, step * float(rng.uniform(1.0, 1.5)))))


def own_weights(bands: BandSet) -> Float64[np.ndarray, "cell band"]:
    """What stands for `band_weights` where functions have a value for each band: each band is a cell of its own."""
    return np.eye(len(GRID_NM), len(bands))


def _prepared(
    tile: FreshTile, settings: PlaneSettings, compiled: Kernels | None
) -> tuple[PlaneTile, SpectralView | None]:
    """A tile's planes, by the kernels if they are given; else by the reference, with the view of its spectra."""
    bands, shape = tile.bands, tile.valid.shape
    if compiled is None or not room_for_planes(settings, 0, len(bands), shape[1]):
        return prepare_planes(tile.radiance, bands, tile.valid, settings)
    fast = CompiledPlanes(compiled, settings, np.zeros((0, len(bands))), bands, shape, workers=1)
    usable = fast.make(tile.radiance, tile.valid, first=0)
    made = {name: array[0] for name, array in fast.inputs.items()}
    sigma_ppm_m = made["sigma"] * np.float32(settings.reference_ppm_m)
    planes = PlaneTile(
        fields=made["planes"][: len(FIELD_NAMES)],
        windows=made["windows"],
        estimate_ppm_m=made["significance"] * sigma_ppm_m,
        sigma_ppm_m=sigma_ppm_m,
        usable=usable,
    )
    return planes, None


def _spectra(views: Sequence[SpectralView], tile: FreshTile, source: FreshSource) -> SpectralBatch:
    """Views as a batch; of no band at all if the source gives no spectra."""
    if not source.spectra:
        empty = torch.zeros(1, 0)
        return SpectralBatch(torch.zeros(1, 0, 1, 1), torch.ones(1, 1, 1), empty, empty, torch.zeros(len(GRID_NM), 0))
    weights = (own_weights if source.fixed_bands else band_weights)(tile.bands)
    return SpectralBatch(
        residual=torch.from_numpy(np.stack([view.residual for view in views])),
        inverse_brightness=torch.from_numpy(np.stack([view.inverse_brightness for view in views])),
        read_out=torch.from_numpy(np.stack([view.read_out for view in views]).astype(np.float32)),
        shot=torch.from_numpy(np.stack([view.shot for view in views]).astype(np.float32)),
        weights=torch.from_numpy(weights.astype(np.float32)),
    )


def draw_batch(
    rng: np.random.Generator,
    source: FreshSource,
    size: int,
    count: int,
    name: str | None = "",
) -> FreshBatch:
    """A batch of fresh tiles of one sensor.

    Args:
        rng: Source of randomness.
        source: What to draw from.
        size: Rows and columns of a tile.
        count: How many tiles.
        name: The sensor; drawn by its share if empty.

    Raises:
        FlameError: If no tile could be prepared.
    """
    if size > source.largest:
        raise FlameError(f"tiles of {size} pixels cannot be cut from ground of {source.largest}; make larger ground")
    if name == "":
        weights = np.array([share.share for share in source.sensors])
        name = source.sensors[int(rng.choice(len(weights), p=weights / weights.sum()))].name
    bands = _random_bands(rng) if name is None else sensor(name).bands.methane()
    noise_of = name or str(rng.choice(["aviris-ng", "emit", "prisma"]))
    pixel_m = float(rng.choice([5.0, 30.0, 60.0])) if name is None else sensor(name).pixel_m
    tiles = []
    compiled = None if source.spectra else load_kernels()
    for _ in range(count * _TRIES):
        grounds, settings, donor = source.ground(rng, name, size)
        fresh = FreshTiles(grounds, source.pool(pixel_m), source.noise, settings, donor)
        tile = fresh.draw(rng, bands if grounds[0].any_bands else None, noise_of, index=0)
        try:
            planes, view = _prepared(tile, source.planes, compiled)
        except FlameError:
            continue  # a part of the line's dark edge has no background
        if not np.isfinite(planes.fields).all() or not np.isfinite(planes.windows).all():
            raise FlameError(f"a plane of a tile from {tile.background} is not finite")
        tiles.append((tile, planes, view))
        if len(tiles) == count:
            break
    if len(tiles) < count:
        raise FlameError(f"of {count * _TRIES} tiles of {size} pixels hardly any could be prepared")

    def stack(arrays: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(arrays))

    truth = [tile.enhancement_ppm_m for tile, _, _ in tiles]
    return FreshBatch(
        spectra=_spectra([view for _, _, view in tiles if view], tiles[0][0], source),
        fields=stack([planes.fields for _, planes, _ in tiles]),
        windows=stack([planes.windows for _, planes, _ in tiles]),
        estimate_ppm_m=stack([planes.estimate_ppm_m for _, planes, _ in tiles]),
        sigma_ppm_m=stack([planes.sigma_ppm_m for _, planes, _ in tiles]),
        usable=stack([planes.usable for _, planes, _ in tiles]),
        valid=stack([tile.valid for tile, _, _ in tiles]),
        enhancement_ppm_m=stack(truth),
        smooth_ppm_m=stack([gaussian_filter(array, _LABEL_SMOOTHING_PX) for array in truth]),
        outline=stack([tile.label for tile, _, _ in tiles if tile.label is not None]),
    )
