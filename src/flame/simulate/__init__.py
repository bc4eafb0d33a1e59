"""Surfaces, air, plumes and sensors drawn at random: labelled tiles with the truth beside them."""

from flame.simulate.injection import cut_background, inject_plume
from flame.simulate.labels import LabelSettings, draw_label, labels_at_level
from flame.simulate.plumes import PlumeField, PlumeSettings, draw_plumes
from flame.simulate.presets import PRESETS, preset
from flame.simulate.settings import (
    AtmosphereSettings,
    InstrumentSettings,
    Range,
    Regime,
    SurfaceSettings,
    TileSettings,
)
from flame.simulate.tiles import SimulatedTile, simulate_tile, tile_generator

__all__ = [
    "PRESETS",
    "AtmosphereSettings",
    "InstrumentSettings",
    "LabelSettings",
    "PlumeField",
    "PlumeSettings",
    "Range",
    "Regime",
    "SimulatedTile",
    "SurfaceSettings",
    "TileSettings",
    "cut_background",
    "draw_label",
    "draw_plumes",
    "inject_plume",
    "labels_at_level",
    "preset",
    "simulate_tile",
    "tile_generator",
]
