"""FLAME: methane plumes in imaging-spectrometer data, found by a physics-guided neural operator.

The names below are what most people need. Each is loaded when it is first used, so that `import flame` is quick and a
flight computer loads nothing that it does not run. `docs/python.md` has an example for each of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flame.api import detect, filter, open_scene, simulate_tile
    from flame.errors import FlameError
    from flame.onboard import Detection, Detector, packaged_models
    from flame.physics import BandMismatchError, BandSet, sensor, unit_absorption
    from flame.scene import Acquisition, GeoGrid, Scene
    from flame.tile import LabelledTile

__version__ = "0.2.0"

__all__ = [
    "Acquisition",
    "BandMismatchError",
    "BandSet",
    "Detection",
    "Detector",
    "FlameError",
    "GeoGrid",
    "LabelledTile",
    "Scene",
    "__version__",
    "detect",
    "filter",
    "open_scene",
    "packaged_models",
    "sensor",
    "simulate_tile",
    "unit_absorption",
]

_HOMES = {
    "flame.api": ("detect", "filter", "open_scene", "simulate_tile"),
    "flame.errors": ("FlameError",),
    "flame.onboard": ("Detection", "Detector", "packaged_models"),
    "flame.physics": ("BandMismatchError", "BandSet", "sensor", "unit_absorption"),
    "flame.scene": ("Acquisition", "GeoGrid", "Scene"),
    "flame.tile": ("LabelledTile",),
}
"""Which module each name comes from; the imports above say the same to type checkers and editors."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker that sees this would let every misspelt name pass

    def __getattr__(name: str) -> Any:
        """Loads a name of `__all__` when it is first asked for (PEP 562)."""
        if name not in _HOME_OF:
            raise AttributeError(f"module 'flame' has no attribute '{name}'")
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return value


def __dir__() -> list[str]:
    """What an editor offers after `flame.`: the loaded names and those still to be loaded."""
    return sorted({*globals(), *__all__})
