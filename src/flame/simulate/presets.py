"""The named sets of distributions: `wide` (the default), `permian`, `quiet`, `cluttered` and `narrow`."""

from __future__ import annotations

from dataclasses import replace

from flame.errors import FlameError
from flame.physics import sensor
from flame.simulate.labels import LabelSettings
from flame.simulate.plumes import PlumeSettings
from flame.simulate.settings import (
    AtmosphereSettings,
    InstrumentSettings,
    Range,
    Regime,
    SurfaceSettings,
    TileSettings,
)

__all__ = ["PRESETS", "preset"]

_OUTLINES_FROM_800_PPM_M = LabelSettings(
    edge_snr=4.5,
    faintest_ppm_m=800.0,
    core_snr=8.0,
    gap_px=2,
    outline_sigma_px=1.0,
    margin_px=0.0,
    margin_share=0.0,
)
"""The first label rule, which outlined nothing below 800 ppm m however quiet the scene. Kept where published figures
depend on it."""

CLUTTERED = TileSettings(label=_OUTLINES_FROM_800_PPM_M)
"""What `wide` was until version 0.1: the default distributions alone, broader than STARCOP in almost every direction.

The first models were trained on it, and the tables that name seed 9001 are drawn from it.
"""

NARROW = TileSettings(
    surface=SurfaceSettings(
        biome_weights=(("oilfield", 1.0), ("desert", 1.0), ("rangeland", 1.0)),
        brightness=Range(0.8, 1.0),
        ground_spectra=Range(4.0, 6.0),
        roughness=Range(2.4, 2.8),
        blending=Range(0.3, 0.6),
        parcel_chance=0.1,
        confuser_chance=0.1,
        confuser_strength=Range(0.03, 0.1),
        texture=Range(0.1, 0.2),
        grain=Range(0.02, 0.05),
        relief=Range(0.0, 0.08),
        shade_chance=0.0,
        water_chance=0.02,
        flare_chance=0.0,
    ),
    atmosphere=AtmosphereSettings(
        solar_zenith_deg=Range(25.0, 40.0),
        view_zenith_deg=Range(0.0, 8.0),
        water_vapour=Range(1.1, 1.7),
        vapour_spread=Range(0.004, 0.01),
        dry_column=Range(0.9, 1.0),
        elevation_spread=Range(0.0005, 0.002),
        path_radiance=Range(0.0008, 0.0015),
    ),
    instrument=InstrumentSettings(
        noise_scale=Range(0.9, 1.2),
        band_noise_spread=Range(0.02, 0.05),
        psf_sigma_px=Range(0.45, 0.55),
        smile_nm=Range(0.0, 0.1),
        shift_nm=Range(-0.1, 0.1),
        fwhm_factor=Range(0.99, 1.01),
        band_gain=Range(0.0, 0.005),
        band_mismatch=Range(0.0, 0.002),
        band_offset=Range(0.0, 0.001),
        stripe=Range(0.0005, 0.001),
        column_gain=Range(0.001, 0.002),
        dead_column_chance=0.0,
        saturation_chance=0.0,
        edge_chance=0.1,
    ),
    label=_OUTLINES_FROM_800_PPM_M,
)
"""A narrow slice of the above, to measure what breadth is worth."""

PERMIAN = TileSettings(
    surface=SurfaceSettings(
        biome_weights=(("oilfield", 3.0), ("desert", 2.0), ("rangeland", 2.0), ("farmland", 0.3)),
        brightness=Range(0.95, 1.7, log=True, bell=True),
        confuser_strength=Range(0.03, 0.18, log=True),
        texture=Range(0.03, 0.15),
        relief=Range(0.0, 0.1),
        shade_chance=0.02,
        water_chance=0.02,
        tanks=Range(0.0, 4.0),
        buildings=Range(0.0, 3.0),
    ),
    atmosphere=AtmosphereSettings(solar_zenith_deg=Range(20.0, 50.0), view_zenith_deg=Range(0.0, 15.0)),
    instrument=InstrumentSettings(
        noise_scale=Range(0.64, 1.44, log=True), edge_chance=0.3, map_chance=1.0, samples_per_pixel=Range(0.65, 0.9)
    ),
    plume=PlumeSettings(
        source_shares=(0.25, 0.6, 0.12, 0.03),
        emission_median_kg_h=22.0,
        emission_log_sigma=1.3,
        emission_range_kg_h=(0.5, 1000.0),
        intensity_range=(0.15, 0.55),
        growth_range=(0.03, 0.12),
        eddy_share=0.3,
    ),
    raise_limit=4.0,
)
"""Like STARCOP's test tiles: bright dry ground, orthorectified, half the noise, fainter plumes, generous outlines.

`flame simulate --check --preset permian --size 512` prints how near it comes.
"""

QUIET = replace(
    PERMIAN,
    surface=replace(
        PERMIAN.surface,
        confuser_chance=0.3,
        confuser_strength=Range(0.005, 0.04, log=True),
        texture=Range(0.03, 0.1),
        tanks=Range(0.0, 1.0),
        buildings=Range(0.0, 1.0),
    ),
    instrument=replace(
        PERMIAN.instrument,
        noise_scale=Range(0.16, 0.36, log=True),
        band_noise_spread=Range(0.02, 0.08),
        smile_nm=Range(0.0, 0.1),
        stripe=Range(0.0001, 0.001, log=True),
        column_gain=Range(0.0005, 0.003, log=True),
        map_chance=0.3,
    ),
    plume=replace(PERMIAN.plume, emission_median_kg_h=PERMIAN.plume.emission_median_kg_h / 4),
)
"""A quarter of `permian`'s noise and plumes; outlines follow, since the label rule goes by the scene's noise."""

_WIDE_RAISE = 8.0
"""Small tiles hold small plumes; raised this far, about half of `wide`'s tiles of 128 pixels have a label."""
_WIDE_SHARES = (("cluttered", 0.4), ("permian", 0.35), ("quiet", 0.25))


def _mixture(shares: tuple[tuple[str, float], ...], presets: dict[str, TileSettings]) -> TileSettings:
    """Presets drawn by their shares, all labelled by the default rule and with the shapes of `permian`'s plumes."""
    shape = {name: getattr(PERMIAN.plume, name) for name in ("intensity_range", "growth_range", "eddy_share")}

    def adapted(settings: TileSettings) -> TileSettings:
        plume = replace(settings.plume, **shape)
        return replace(settings, label=LabelSettings(), plume=plume, raise_limit=max(settings.raise_limit, _WIDE_RAISE))

    return TileSettings(regimes=tuple(Regime(name, share, adapted(presets[name])) for name, share in shares))


_SINGLE = {"narrow": NARROW, "permian": PERMIAN, "quiet": QUIET, "cluttered": CLUTTERED}

PRESETS: dict[str, TileSettings] = {"wide": _mixture(_WIDE_SHARES, _SINGLE), **_SINGLE}
"""The named sets. `wide`, the default, is a mixture of three of the others in which every level follows the noise."""


def preset(name: str, *, size: int | None = None, sensor_name: str | None = None) -> TileSettings:
    """A preset by name, for another tile size or sensor if asked.

    Raises:
        FlameError: If there is no such preset.
    """
    if name not in PRESETS:
        raise FlameError(f"no preset '{name}'; known are {', '.join(PRESETS)}")
    if size is not None and size < 16:
        raise FlameError(f"a tile needs at least 16 pixels on a side, got {size}")

    def fitted(settings: TileSettings) -> TileSettings:
        if sensor_name is not None:
            found = sensor(sensor_name)
            instrument = replace(settings.instrument, sensor=found.name)
            settings = replace(settings, instrument=instrument, pixel_m=found.pixel_m)
        return settings if size is None else replace(settings, size=size)

    return PRESETS[name].each(fitted)
