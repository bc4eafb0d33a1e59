"""The functions of `import flame`: a file or a scene in, an answer out.

They load what they need when they are called. `detect` and `filter` on a `Scene` work in a flight install, which has
neither rasterio nor h5py; only files need those.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flame.scene import MaskRule, Scene, SceneFile

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float32

    from flame.onboard import Detection
    from flame.simulate import SimulatedTile

__all__ = ["detect", "filter", "open_scene", "simulate_tile"]


def open_scene(
    path: Path | str, *, unit: str | None = None, scale: float | None = None, keep: Sequence[str] = ()
) -> Scene | SceneFile:
    """Opens a scene or tile of any format that FLAME knows.

    Products of satellites and aircraft stay in their file and are read by lines; `load()` reads them whole.

    Args:
        path: A file, or the folder of a tile or product.
        unit: Radiance unit of the file where it does not say, such as "W m-2 um-1 sr-1".
        scale: What 1 in the file is in uW cm-2 nm-1 sr-1, instead of a unit.
        keep: Masked pixels to use all the same, by their cause: "water", "cloud", "cirrus", "snow", "flare",
            "saturated" or "detector".

    Raises:
        flame.FlameError: If there is no such file, no reader knows it, or it is damaged; the message names the file.

    Examples:
        >>> import flame
        >>> import numpy as np
        >>> wavelength_nm = np.arange(2100.0, 2500.0, 5.0)
        >>> np.savez("chip.npz", radiance=np.ones((80, 32, 32)), wavelength_nm=wavelength_nm)
        >>> scene = flame.open_scene("chip.npz")
        >>> scene.shape
        (32, 32)
    """
    from flame.io import OpenOptions
    from flame.io import open_scene as opened

    return opened(path, OpenOptions(unit=unit, scale=scale, mask=MaskRule.keeping(keep)))


def detect(
    source: Scene | SceneFile | Path | str,
    model: Path | str | None = None,
    *,
    runtime: str = "auto",
    threads: int | None = None,
) -> Detection:
    """Finds the methane plumes of one scene.

    The model is loaded for each call. To look at many scenes, make one `flame.Detector` and call its `run`.

    Args:
        source: A scene, or the path of a file that `open_scene` reads.
        model: A packaged name ("flame-plus"), the path of an ONNX file, or "noise-aware-mf", the filter that takes any
            bands. By default the packaged model, and that filter where it does not fit.
        runtime: "native", "openvino", "onnxruntime", or "auto" for the fastest of these that is installed.
        threads: CPU threads; by default all that this process may use.

    Returns:
        Probability, score in ppm m, mask and quality of each pixel, and the plumes as objects.

    Raises:
        flame.BandMismatchError: If the named model was not made for the scene's bands; the message says what to do.
        flame.FlameError: If the file, the model or the runtime cannot be used.

    Examples:
        >>> import flame
        >>> tile = flame.simulate_tile(seed=3, preset="narrow").tile
        >>> detection = flame.detect(tile.scene)
        >>> detection.mask.shape
        (128, 128)
        >>> largest = max(detection.plumes, key=lambda plume: plume.area_px)
    """
    from flame.onboard import Detectors

    scene = open_scene(source) if isinstance(source, str | Path) else source
    chosen = Detectors(None if model is None else str(model), runtime, threads)
    return chosen.for_bands(scene.bands, scene.acquisition.source or "the scene").run(scene)


def filter(
    name: str, source: Scene | SceneFile | Path | str, settings: object = None
) -> Float32[np.ndarray, "row col"]:
    """Runs a classical methane filter on one scene.

    Args:
        name: A name in `flame.filters.FILTERS`, such as "mag1c"; there each has its unit and its threshold.
        source: A scene, or the path of a file that `open_scene` reads. Only its bands near 2300 nm are used.
        settings: The settings class of that filter, such as `flame.filters.Mag1cSettings(column_group=16)`.

    Returns:
        The score of each pixel; 0 where the scene is not valid.

    Raises:
        flame.FlameError: If there is no such filter, or the scene has too few bands or pixels for it.

    Examples:
        >>> import flame
        >>> tile = flame.simulate_tile(seed=3, size=64).tile
        >>> enhancement_ppm_m = flame.filter("mag1c", tile.scene)
        >>> enhancement_ppm_m.shape
        (64, 64)
    """
    from flame.filters import filter_named, filter_scene

    chosen = filter_named(name)
    return filter_scene(chosen, open_scene(source) if isinstance(source, str | Path) else source, settings)


def simulate_tile(
    seed: int = 0, *, index: int = 0, size: int = 128, sensor: str = "aviris-ng", preset: str = "wide"
) -> SimulatedTile:
    """Simulates one labelled tile. The same arguments give the same bytes.

    Args:
        seed: Which set of tiles.
        index: Which tile of that set.
        size: Rows and columns, in pixels.
        sensor: Whose bands and noise; a name in `flame.physics.SENSORS`.
        preset: What the scenes are like; see `flame.simulate.PRESETS`.

    Returns:
        The labelled tile (`.tile`, with `.tile.scene`), and what only a simulator knows: its background and its noise.

    Raises:
        flame.FlameError: If the sensor or the preset is not known, or the size is too small.

    Examples:
        >>> import flame
        >>> tile = flame.simulate_tile(seed=1, size=64).tile
        >>> tile.scene.radiance.shape, tile.label.shape
        ((72, 64, 64), (64, 64))
    """
    from flame.simulate import preset as settings_named
    from flame.simulate import simulate_tile as draw
    from flame.simulate import tile_generator

    settings = settings_named(preset, size=size, sensor_name=sensor)
    return draw(tile_generator(seed, index), settings, f"sim_{preset}_{seed}_{index:06d}")
