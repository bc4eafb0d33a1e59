"""A new tile in every step of training: fresh plumes, fresh noise and other calibration on a kept background.

Radiance of the background, as the drawn bands see it, times the saturating transmittance of the plume, times gain
errors; then noise. Nothing here takes long: a tile of 128 x 128 x 72 is made in about ten milliseconds of one core.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float32

from flame.errors import FlameError
from flame.physics import MAX_ENHANCEMENT_PPM_M, BandSet, noise_model, sensor
from flame.simulate.backgrounds import NOISE_SCALES, Background, Optics, optics
from flame.simulate.fields import fractal
from flame.simulate.foreign import draw_foreign
from flame.simulate.instrument import InstrumentState, draw_band_gain, draw_instrument, respond, saturate
from flame.simulate.labels import draw_label
from flame.simulate.mapping import draw_mapping
from flame.simulate.own_noise import add_own_noise
from flame.simulate.plume_pool import PlumePool
from flame.simulate.respectral import respectral
from flame.simulate.retexture import retextured
from flame.simulate.settings import FreshSettings, Range
from flame.tile import PlumeSource

__all__ = ["FreshTile", "FreshTiles", "NoisePool"]

_PLUME_FLOOR_PPM_M = 0.5
_NOISE_VALUES = 1 << 24
_STRONG = 0.995
_NOMINAL = Range(1.0, 1.0)


@dataclass(frozen=True, eq=False)
class FreshTile:
    """A tile with its truth.

    Attributes:
        radiance: What the sensor reports; 0 where not valid.
        bands: The bands it is labelled with: nominal centres, not the shifted ones it was seen through.
        valid: Pixels that were seen.
        enhancement_ppm_m: True enhancement along the light's path.
        label: What an annotator would outline; None if no labels were asked for.
        noise_scale: Noise against the sensor's nominal one.
        sources: The sources.
        background: Name of the background.
    """

    radiance: Float32[np.ndarray, "band row col"]
    bands: BandSet
    valid: Bool[np.ndarray, "row col"]
    enhancement_ppm_m: Float32[np.ndarray, "row col"]
    label: Bool[np.ndarray, "row col"] | None
    noise_scale: float
    sources: tuple[PlumeSource, ...]
    background: str


class NoisePool:
    """Standard normal values drawn once: sums of two stretches at random places are new noise for a memory copy's time.

    Args:
        rng: Source of randomness for the pool itself.
        values: Size of the pool.
    """

    def __init__(self, rng: np.random.Generator, values: int = _NOISE_VALUES) -> None:
        self._values = rng.standard_normal(values, dtype=np.float32) * np.float32(np.sqrt(0.5))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Float32[np.ndarray, ...]:
        """Standard normal values of a shape.

        Raises:
            FlameError: If more are asked for than an eighth of the pool: the two stretches could then overlap.
        """
        count = int(np.prod(shape))
        if 8 * count > self._values.size:
            raise FlameError(
                f"{count} values of noise asked for; that needs a pool of {8 * count}: NoisePool(rng, values)"
            )
        first = int(rng.integers(0, self._values.size - count))
        # Round the end or not, the second stretch is at least an eighth of the pool away: nothing is used twice.
        far = self._values.size // 4
        second = (first + int(rng.integers(far, 3 * far))) % (self._values.size - count)
        out = self._values[first : first + count] + self._values[second : second + count]
        return out.reshape(shape)


@dataclass(frozen=True, eq=False)
class FreshTiles:
    """Backgrounds, plumes and noise from which tiles are drawn without end.

    Attributes:
        backgrounds: Plume-free ground, all of one size; real scenes and simulated ones may stand side by side.
        plumes: Plume columns.
        noise: Noise.
        settings: What is changed from tile to tile.
        donor: Ground whose spectra a tile's pattern may wear instead of its own, see `FreshSettings.donor_chance`.
    """

    backgrounds: tuple[Background, ...]
    plumes: PlumePool
    noise: NoisePool
    settings: FreshSettings = field(default_factory=FreshSettings)
    donor: Background | None = None

    def __post_init__(self) -> None:
        if len({background.valid.shape for background in self.backgrounds}) != 1:
            raise FlameError("fresh tiles need backgrounds, all of one size")

    def draw(
        self,
        rng: np.random.Generator,
        bands: BandSet | None = None,
        sensor_name: str | None = None,
        index: int | None = None,
    ) -> FreshTile:
        """One tile.

        Args:
            rng: Source of randomness; the same state gives the same bytes.
            bands: Nominal bands to see it in, any for simulated backgrounds; a real scene's own if not given.
            sensor_name: Whose noise; the background's own sensor if not given.
            index: Which background; drawn if not given.
        """
        settings = self.settings
        index = int(rng.integers(len(self.backgrounds))) if index is None else index
        ground = self.backgrounds[index].turned(int(rng.integers(4)), bool(rng.integers(2)))
        nominal = _nominal(ground, bands)
        seen = self._see(rng, ground, nominal, sensor_name or ground.sensor)
        gain = np.exp(draw_band_gain(rng, len(nominal), settings.band_gain, settings.band_mismatch))
        gain = (gain * settings.brightness.draw(rng)).astype(np.float32)
        radiance, valid = ground.radiance(seen), ground.valid
        if rng.uniform() < settings.mix_chance:
            radiance, valid = self._mixed(rng, ground, seen, radiance)
        wears = 1.0
        if self.donor is not None and rng.uniform() < settings.donor_chance:
            radiance, wears = self._retextured(rng, self.donor, ground, nominal, radiance)
        if settings.respectral is not None and rng.uniform() < settings.respectral.chance:
            radiance = respectral(rng, radiance, nominal, valid, settings.respectral)
        if settings.foreign is not None:
            strange = draw_foreign(rng, nominal, valid.shape, settings.foreign)
            if strange is not None:
                radiance *= np.exp(strange, out=strange)
        scale = settings.noise_scale.draw(rng)
        as_seen = float(np.hypot(scale, self._own_noise(rng, radiance, nominal, sensor_name or ground.sensor)))
        radiance *= gain[:, None, None]
        visible_ppm_m = _visible_at(ground, as_seen * seen.reference_noise) * np.float32(wears)
        column, sources = self.plumes.draw(rng, valid.shape, scale if settings.plume_follows_noise else 1.0)
        if settings.plume_snr is not None and sources:
            factor = settings.plume_snr.draw(rng) * _strength(column, visible_ppm_m[valid]) / ground.path_factor
            column *= np.float32(factor)
            sources = tuple(replace(source, emission_kg_h=source.emission_kg_h * factor) for source in sources)
        slant_ppm_m = np.minimum(column * np.float32(ground.path_factor), np.float32(MAX_ENHANCEMENT_PPM_M))
        faults = self._faults(rng, nominal, valid)
        usual = None if faults is None else radiance.mean(axis=(1, 2))
        _absorb(radiance, slant_ppm_m, seen)
        if faults is not None and usual is not None:
            radiance = respond(radiance, usual, faults)
        sigma = noise_model(sensor_name or ground.sensor).sigma(radiance, nominal)
        sigma *= np.float32(scale) if faults is None else np.float32(scale) * faults.noise_factor[:, None, None]
        sigma *= self.noise.draw(rng, radiance.shape)
        radiance += sigma
        if faults is not None:
            assert settings.faults is not None
            radiance, valid = saturate(radiance, faults), valid & faults.seen
            mapping = draw_mapping(rng, valid.shape, settings.faults)
            if mapping is not None:
                radiance, valid, slant_ppm_m, visible_ppm_m = map(
                    mapping, (radiance, valid, slant_ppm_m, visible_ppm_m)
                )
        if not valid.all():
            radiance[:, ~valid] = 0.0
        label = None if settings.label is None else draw_label(slant_ppm_m, visible_ppm_m, valid, settings.label)
        return FreshTile(radiance, nominal, valid, slant_ppm_m, label, scale, sources, ground.name)

    def _retextured(
        self,
        rng: np.random.Generator,
        donor: Background,
        ground: Background,
        nominal: BandSet,
        radiance: Float32[np.ndarray, "band row col"],
    ) -> tuple[Float32[np.ndarray, "band row col"], float]:
        """The ground in the donor's spectra, and by how much more or less noise is visible there.

        A quarter of the donor's pixels are enough to tell its mean and covariance.
        """
        thin = (..., slice(None, None, 2), slice(None, None, 2))
        donor = replace(donor, maps=donor.maps[thin], valid=donor.valid[thin], visible_ppm_m=donor.visible_ppm_m[thin])
        there = optics(nominal if donor.any_bands else donor.grid, donor.grid, donor.sensor)
        spectra = donor.radiance(there)[:, donor.valid]
        if spectra.shape[1] <= len(nominal) or int(ground.valid.sum()) <= len(nominal):
            return radiance, 1.0
        middle = NOISE_SCALES.index(1.0)
        own, other = (float(np.median(each.visible_ppm_m[middle][each.valid])) for each in (ground, donor))
        return retextured(rng, radiance, ground.valid, spectra), other / own

    def _own_noise(
        self, rng: np.random.Generator, radiance: Float32[np.ndarray, "band row col"], nominal: BandSet, name: str
    ) -> float:
        """Gives the ground noise of its own, or not; how large it is, in units of the sensor's nominal noise."""
        own = self.settings.own_noise
        # No draw at all where ground never has any: tiles without keep their bytes.
        if own is None or rng.uniform() >= own.chance:
            return 0.0
        usual = radiance.mean(axis=(1, 2))
        added = add_own_noise(rng, radiance, nominal, own, lambda shape: self.noise.draw(rng, shape))
        return float(np.median(added / noise_model(name).sigma(usual, nominal)))

    def _faults(
        self, rng: np.random.Generator, nominal: BandSet, valid: Bool[np.ndarray, "row col"]
    ) -> InstrumentState | None:
        """What is wrong with the instrument besides shifts and gains, which every tile has; None for nothing."""
        settings = self.settings
        # No draw at all where there are no faults: tiles without keep their bytes.
        if settings.faults is None or rng.uniform() >= settings.fault_chance:
            return None
        drawn = draw_instrument(rng, valid.shape, nominal, replace(settings.faults, noise_scale=_NOMINAL))
        seen = drawn.seen if (drawn.seen & valid).any() else np.ones_like(drawn.seen)
        return replace(drawn, band_gain=np.ones_like(drawn.band_gain), seen=seen)

    def _see(self, rng: np.random.Generator, ground: Background, nominal: BandSet, sensor_name: str) -> Optics:
        """The bands as they truly are: shifted and widened against the nominal ones."""
        shift_nm, widened = self.settings.shift_nm.draw(rng), self.settings.fwhm_factor.draw(rng)
        if not ground.any_bands:
            shift_nm, widened = float(np.clip(shift_nm, *_real_shift(ground.grid))), 1.0
        return optics(BandSet(nominal.centres_nm + shift_nm, nominal.fwhm_nm * widened), ground.grid, sensor_name)

    def _mixed(
        self,
        rng: np.random.Generator,
        ground: Background,
        seen: Optics,
        radiance: Float32[np.ndarray, "band row col"],
    ) -> tuple[Float32[np.ndarray, "band row col"], Bool[np.ndarray, "row col"]]:
        """Another background of the same grid in part of the tile, with a soft border."""
        alike = [other for other in self.backgrounds if other.grid.matches(ground.grid)]
        other = alike[int(rng.integers(len(alike)))]
        field = fractal(rng, ground.valid.shape, 3.2)[0]
        edge = float(np.quantile(field, rng.uniform(0.3, 0.8)))
        share = np.clip((field - np.float32(edge)) / np.float32(rng.uniform(0.02, 0.4)) + np.float32(0.5), 0, 1)
        radiance += share * (other.radiance(seen) - radiance)
        return radiance, ground.valid & (other.valid | (share == 0))


def _strength(column: Float32[np.ndarray, "row col"], visible_ppm_m: Float32[np.ndarray, " pixel"]) -> float:
    """What a column is to be multiplied by for its strong pixels to equal the visible noise."""
    strong = float(np.quantile(column, _STRONG))
    return float(np.median(visible_ppm_m)) / strong if strong > 0 and visible_ppm_m.size else 1.0


def _nominal(ground: Background, bands: BandSet | None) -> BandSet:
    if bands is not None:
        return bands
    if ground.any_bands:
        return sensor(ground.sensor).bands.methane()
    return ground.grid


def _real_shift(grid: BandSet) -> tuple[float, float]:
    most = 0.25 * float(np.diff(grid.centres_nm).min())
    return -most, most


def _visible_at(ground: Background, scale: float) -> Float32[np.ndarray, "row col"]:
    """Visible noise at a noise scale, interpolated between those known in the logarithm of the scale."""
    place = float(np.interp(np.log(scale), np.log(NOISE_SCALES), np.arange(len(NOISE_SCALES))))
    below = min(int(place), len(NOISE_SCALES) - 2)
    low, high = ground.visible_ppm_m[below], ground.visible_ppm_m[below + 1]
    return np.asarray(low + np.float32(place - below) * (high - low))


def _absorb(
    radiance: Float32[np.ndarray, "band row col"], slant_ppm_m: Float32[np.ndarray, "row col"], seen: Optics
) -> None:
    """Lets the plume absorb, in place."""
    behind = np.flatnonzero(slant_ppm_m > _PLUME_FLOOR_PPM_M)
    if behind.size:
        depth = seen.log_transmittance(slant_ppm_m.ravel()[behind])
        radiance.reshape(len(radiance), -1)[:, behind] *= np.exp(depth, out=depth)
