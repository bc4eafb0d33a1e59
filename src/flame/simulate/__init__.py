"""Surfaces, air, plumes and sensors drawn at random: labelled tiles with the truth beside them."""

from flame.simulate.background_store import load_backgrounds, save_backgrounds
from flame.simulate.backgrounds import Background, background_of, draw_background, fine_grid
from flame.simulate.fresh import FreshTile, FreshTiles, NoisePool
from flame.simulate.injection import cut_background, inject_plume
from flame.simulate.labels import LabelSettings, draw_label, labels_at_level
from flame.simulate.plume_pool import PlumePool, make_plume_pool
from flame.simulate.plumes import PlumeField, PlumeSettings, draw_plumes
from flame.simulate.presets import PRESETS, preset
from flame.simulate.settings import (
    AtmosphereSettings,
    FreshSettings,
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
    "Background",
    "FreshSettings",
    "FreshTile",
    "FreshTiles",
    "InstrumentSettings",
    "LabelSettings",
    "NoisePool",
    "PlumeField",
    "PlumePool",
    "PlumeSettings",
    "Range",
    "Regime",
    "SimulatedTile",
    "SurfaceSettings",
    "TileSettings",
    "background_of",
    "cut_background",
    "draw_background",
    "draw_label",
    "draw_plumes",
    "fine_grid",
    "inject_plume",
    "labels_at_level",
    "load_backgrounds",
    "make_plume_pool",
    "preset",
    "save_backgrounds",
    "simulate_tile",
    "tile_generator",
]
