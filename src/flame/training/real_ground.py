"""Real plume-free scenes as ground for fresh tiles, in the bands of every sensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.interpolate import PchipInterpolator

from flame.physics import BandSet, sensor
from flame.scene import Scene
from flame.simulate import preset
from flame.simulate.backgrounds import Background, background_of

__all__ = ["mirrored", "real_ground", "seen_in"]


def seen_in(scene: Scene, bands: BandSet) -> Scene:
    """A scene in the bands of another sensor, interpolated between its own; they must be about as fine."""
    own = scene.methane()
    inside = np.clip(bands.centres_nm, own.bands.centres_nm[0], own.bands.centres_nm[-1])
    cube = PchipInterpolator(own.bands.centres_nm, own.radiance, axis=0)(inside)
    return replace(own, radiance=np.maximum(cube, 1e-6).astype(np.float32), bands=bands)


def mirrored(ground: Background, size: int) -> Background:
    """Ground of at least a size, its own mirrored at the edges as often as it takes."""
    grow = [max(0, size - side) for side in ground.valid.shape]

    def wider(layer: np.ndarray) -> np.ndarray:
        return np.pad(layer, [(0, 0)] * (layer.ndim - 2) + [(0, more) for more in grow], mode="symmetric")

    return replace(
        ground, maps=wider(ground.maps), valid=wider(ground.valid), visible_ppm_m=wider(ground.visible_ppm_m)
    )


def real_ground(
    scenes: Mapping[str, Scene], sensors: Sequence[str], size: int, rng: np.random.Generator
) -> dict[str, list[Background]]:
    """Each scene as ground for each sensor.

    Args:
        scenes: Plume-free scenes by name, in AVIRIS-NG's bands or others as fine.
        sensors: Names of sensors.
        size: Least rows and columns.
        rng: Source of randomness, for angles that a scene does not tell.
    """
    return {
        name: [
            mirrored(
                background_of(
                    seen_in(scene, sensor(name).bands.methane()), rng, preset("wide", sensor_name=name), label
                ),
                size,
            )
            for label, scene in scenes.items()
        ]
        for name in sensors
    }
