"""Every nuisance of the simulator as a documented distribution; `flame.simulate.presets` has the named sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from flame.errors import FlameError
from flame.simulate.foreign import ForeignSettings
from flame.simulate.labels import LabelSettings
from flame.simulate.own_noise import OwnNoiseSettings
from flame.simulate.plumes import PlumeSettings
from flame.simulate.respectral import RespectralSettings

__all__ = [
    "AtmosphereSettings",
    "FreshSettings",
    "InstrumentSettings",
    "Range",
    "Regime",
    "SurfaceSettings",
    "TileSettings",
]


@dataclass(frozen=True)
class Range:
    """A distribution between two bounds.

    Attributes:
        low: Smallest value.
        high: Largest value.
        log: Draw in the logarithm.
        bell: The middle is likelier than the ends (mean of three uniform draws), not all values alike.
    """

    low: float
    high: float
    log: bool = False
    bell: bool = False

    def __post_init__(self) -> None:
        if self.low > self.high or (self.log and self.low <= 0):
            raise FlameError(f"a range needs low <= high, and low > 0 for a logarithmic one, got {self}")

    def __str__(self) -> str:
        kind = ", ".join(word for word, on in (("log", self.log), ("bell", self.bell)) if on)
        return f"{self.low:g} to {self.high:g}" + (f" ({kind})" if kind else "")

    def draw(self, rng: np.random.Generator) -> float:
        """One value."""
        place = float(rng.uniform(size=3).mean()) if self.bell else float(rng.uniform())
        if self.log:
            return float(self.low * (self.high / self.low) ** place)
        return self.low + (self.high - self.low) * place

    def count(self, rng: np.random.Generator) -> int:
        """One whole number, both bounds included."""
        return int(rng.integers(int(self.low), int(self.high) + 1))


@dataclass(frozen=True)
class SurfaceSettings:
    """What the ground is made of and how it is laid out.

    Attributes:
        biome_weights: Relative frequency of each kind of landscape in `flame.simulate.layout.BIOMES`.
        ground_spectra: Library spectra blended into the open ground of one tile.
        brightness: Factor on all reflectances of a tile: wet, burnt and built ground is darker than library samples.
        alike: Share of the library from which one place's spectra of a kind are drawn, nearest neighbours first.
        roughness: Slope of the power spectrum of the ground's fractal fields (2 rough, 4 smooth).
        blending: Softness of the borders between ground materials (0.05 patchwork, 1 gradual).
        parcel_chance: Chance that fields cover part of the tile.
        confuser_chance: Chance that each sharp absorber (carbonate, clay, hydrocarbon) occurs in the tile.
        absorber_roughness: Slope of the power spectrum of the sharp absorbers' patches.
        confuser_strength: Depth of a sharp absorber's feature, as absorbance.
        texture: Standard deviation of log-brightness, large scale.
        grain: Standard deviation of log-brightness from pixel to pixel.
        relief: Standard deviation of log-illumination by slopes.
        shade_chance: Chance of cast shadow (clouds, cliffs) on part of the tile.
        shade_light: Light left in a cast shadow.
        water_chance: Chance of a river or pond in a biome that is not coastal.
        roads, pads, tanks, buildings: How many of each, before the biome's own factor.
        flare_chance: Chance of a gas flare, a hot source that adds light of its own.
    """

    biome_weights: tuple[tuple[str, float], ...] = (
        ("desert", 2.0), ("oilfield", 3.0), ("farmland", 2.0), ("rangeland", 2.0), ("town", 1.5), ("forest", 0.7),
        ("coast", 0.8),
    )  # fmt: skip
    ground_spectra: Range = Range(4.0, 9.0)
    brightness: Range = Range(0.4, 1.2, log=True, bell=True)
    alike: Range = Range(0.03, 0.3, log=True)
    roughness: Range = Range(1.8, 3.4)
    blending: Range = Range(0.08, 1.0, log=True)
    parcel_chance: float = 0.35
    confuser_chance: float = 0.7
    confuser_strength: Range = Range(0.01, 0.15, log=True)
    absorber_roughness: Range = Range(0.8, 3.0)
    texture: Range = Range(0.03, 0.18)
    grain: Range = Range(0.01, 0.12, log=True)
    relief: Range = Range(0.0, 0.2)
    shade_chance: float = 0.15
    shade_light: Range = Range(0.04, 0.4, log=True)
    water_chance: float = 0.15
    roads: Range = Range(0.0, 3.0)
    pads: Range = Range(0.0, 3.0)
    tanks: Range = Range(0.0, 8.0)
    buildings: Range = Range(0.0, 6.0)
    flare_chance: float = 0.03


@dataclass(frozen=True)
class AtmosphereSettings:
    """Sun, air and elevation.

    Attributes:
        solar_zenith_deg: Sun's angle from the vertical.
        view_zenith_deg: Sensor's angle from the vertical.
        water_vapour: Water-vapour column in units of the look-up table's own.
        vapour_spread: Standard deviation of the vapour column inside a tile, relative.
        dry_column: Column of the well-mixed gases relative to sea level (0.75 is about 2,400 m).
        elevation_spread: Standard deviation of the dry column inside a tile, relative.
        path_radiance: Light scattered by the air into the sensor, as a reflectance at 2.1 µm.
        haze: Reflectance of the air at 460 nm, for the RGB bands only.
    """

    solar_zenith_deg: Range = Range(15.0, 55.0)
    view_zenith_deg: Range = Range(0.0, 18.0)
    water_vapour: Range = Range(0.4, 4.5, log=True, bell=True)
    vapour_spread: Range = Range(0.002, 0.03, log=True)
    dry_column: Range = Range(0.75, 1.0)
    elevation_spread: Range = Range(0.0005, 0.01, log=True)
    path_radiance: Range = Range(0.0003, 0.004, log=True)
    haze: Range = Range(0.03, 0.1)


@dataclass(frozen=True)
class InstrumentSettings:
    """The sensor and its faults.

    Attributes:
        sensor: Name in `flame.physics.SENSORS`; its methane bands and noise model are used.
        noise_scale: Factor on the sensor's published noise.
        band_noise_spread: Standard deviation of the log noise factor of each band.
        psf_sigma_px: Standard deviation of the point spread, in pixels.
        smile_nm: Largest shift of the band centres across the swath.
        shift_nm: Shift of all band centres against the nominal ones.
        fwhm_factor: True band width against the nominal one.
        band_gain: Standard deviation of the calibration error, smooth over neighbouring bands, relative.
        band_mismatch: Standard deviation of each band's own calibration error, relative.
        band_offset: Standard deviation of each band's additive error, relative to the mean radiance of the band.
        stripe: Standard deviation of the gain of each detector column in each band, relative.
        column_gain: Standard deviation of a gain common to all bands of a detector column, relative.
        dead_column_chance: Chance of dead detector columns in a tile; they become invalid pixels.
        saturation_chance: Chance that the brightest pixels saturate.
        edge_chance: Chance that the tile reaches over the edge of the flight line (radiance 0, not valid).
        rotation_deg: Angle of the flight line against the tile's columns.
        map_chance: Chance that the tile was brought onto a map by nearest neighbours, which repeats and skips samples.
        samples_per_pixel: Detector samples in the length of a map pixel, along and across the flight line.
    """

    sensor: str = "aviris-ng"
    noise_scale: Range = Range(0.6, 2.8, log=True)
    band_noise_spread: Range = Range(0.02, 0.15)
    psf_sigma_px: Range = Range(0.35, 0.8)
    smile_nm: Range = Range(0.0, 0.3)
    shift_nm: Range = Range(-0.5, 0.5)
    fwhm_factor: Range = Range(0.95, 1.08)
    band_gain: Range = Range(0.0, 0.03)
    band_mismatch: Range = Range(0.0, 0.008)
    band_offset: Range = Range(0.0, 0.004)
    stripe: Range = Range(0.0003, 0.005, log=True)
    column_gain: Range = Range(0.0005, 0.01, log=True)
    dead_column_chance: float = 0.05
    saturation_chance: float = 0.03
    edge_chance: float = 0.25
    rotation_deg: Range = Range(-90.0, 90.0)
    map_chance: float = 0.0
    samples_per_pixel: Range = Range(0.75, 0.95)


@dataclass(frozen=True)
class FreshSettings:
    """How a kept background is changed before it is seen again (`flame.simulate.FreshTiles`).

    Attributes:
        brightness: Factor on all radiance.
        noise_scale: Factor on the sensor's nominal noise.
        plume_follows_noise: Whether emission rates are scaled with the noise, so that quiet tiles hold faint plumes.
        plume_snr: How strong a tile's plumes are: the enhancement that one pixel in 200 exceeds, over the tile's
            visible noise. None for the emission rates as drawn.
        shift_nm: Shift of all band centres; a real scene's at most a quarter of its band spacing.
        fwhm_factor: Band width against nominal; simulated backgrounds only.
        band_gain: Calibration error that neighbouring bands share, standard deviation of the log gain.
        band_mismatch: Each band's own calibration error, likewise.
        mix_chance: Chance that another background takes the place of part of the tile.
        foreign: Materials that no library has; None for none.
        respectral: How the ground's own spectra are changed; None: not at all.
        donor_chance: Chance that the ground's pattern wears the spectra of the donor, where there is one.
        own_noise: Noise of the instrument that took the ground itself; None for none.
        faults: What else may be wrong with the instrument: stripes, offsets and uneven noise of bands, dead columns,
            edges, saturation, and the way onto a map. None for nothing; its sensor, shifts, gains, point spread and
            noise scale are not used.
        fault_chance: Chance that a tile has these.
        label: How labels are drawn; None for none: the enhancement is always there.
    """

    brightness: Range = Range(0.6, 1.6, log=True)
    noise_scale: Range = Range(0.15, 2.5, log=True)
    plume_follows_noise: bool = True
    plume_snr: Range | None = None
    shift_nm: Range = Range(-0.5, 0.5)
    fwhm_factor: Range = Range(0.95, 1.08)
    band_gain: Range = Range(0.0, 0.03)
    band_mismatch: Range = Range(0.0, 0.008)
    mix_chance: float = 0.2
    foreign: ForeignSettings | None = None
    respectral: RespectralSettings | None = None
    donor_chance: float = 0.0
    own_noise: OwnNoiseSettings | None = None
    faults: InstrumentSettings | None = None
    fault_chance: float = 0.5
    label: LabelSettings | None = field(default_factory=LabelSettings)


@dataclass(frozen=True)
class Regime:
    """One kind of scene in a mixture.

    Attributes:
        name: The preset it comes from.
        share: How often it is drawn; shares of a mixture sum to one.
        settings: What its tiles are drawn from.
    """

    name: str
    share: float
    settings: TileSettings


@dataclass(frozen=True)
class TileSettings:
    """Everything `simulate_tile` draws from.

    Attributes:
        size: Rows and columns of a tile.
        pixel_m: Size of a ground pixel.
        raise_limit: How far the emission of a plume that nobody could see may be raised until it is seen.
        surface, atmosphere, instrument, plume, label: The distributions of each part.
        regimes: A mixture: each tile draws one of these and everything from it. What else is set here must then be what
            all regimes share; use `each` to change them.
    """

    size: int = 128
    pixel_m: float = 5.0
    raise_limit: float = 15.0
    surface: SurfaceSettings = field(default_factory=SurfaceSettings)
    atmosphere: AtmosphereSettings = field(default_factory=AtmosphereSettings)
    instrument: InstrumentSettings = field(default_factory=InstrumentSettings)
    plume: PlumeSettings = field(default_factory=PlumeSettings)
    label: LabelSettings = field(default_factory=LabelSettings)
    regimes: tuple[Regime, ...] = ()

    def __post_init__(self) -> None:
        if not self.regimes:
            return
        if not np.isclose(sum(regime.share for regime in self.regimes), 1.0):
            raise FlameError(f"shares of regimes must sum to one, got {[regime.share for regime in self.regimes]}")
        if any(_shared(regime.settings) != replace(self, regimes=()) for regime in self.regimes):
            raise FlameError("a mixture draws from its regimes: change those, with settings.each(change)")

    def each(self, change: Callable[[TileSettings], TileSettings]) -> TileSettings:
        """The same change made to every regime, or to these settings if they are no mixture."""
        if not self.regimes:
            return change(self)
        regimes = tuple(replace(regime, settings=change(regime.settings)) for regime in self.regimes)
        return replace(_shared(regimes[0].settings), regimes=regimes)

    def regime(self, rng: np.random.Generator) -> TileSettings:
        """The settings of one tile: a regime drawn by its share; these settings themselves if they are no mixture."""
        if not self.regimes:
            return self
        shares = [regime.share for regime in self.regimes]
        return self.regimes[int(rng.choice(len(shares), p=shares))].settings


def _shared(settings: TileSettings) -> TileSettings:
    """What all regimes of a mixture have in common: grid, sensor and label rule; the rest at its defaults."""
    instrument = InstrumentSettings(sensor=settings.instrument.sensor)
    return TileSettings(settings.size, settings.pixel_m, instrument=instrument, label=settings.label)
