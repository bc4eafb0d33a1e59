"""Cloud, snow, cirrus, water and flares from the radiance alone, for products that bring no masks of their own.

Simple tests on apparent reflectance, rho = pi L / (E0 cos(sun zenith)), in bands near a few wavelengths; a test whose
bands the file lacks is left out. They are meant to catch what makes false plumes, not to map clouds:

- cloud: bright and white. rho > 0.3 at 460 and 640 nm, their ratio between 0.75 and 1.6, and rho > 0.12 at 1610 nm
  (else at 2130 nm). Salt flats, fresh snow's edges and white roofs can pass it.
- snow: rho > 0.4 at 550 nm and (rho550 - rho1610) / (rho550 + rho1610) > 0.4.
- cirrus: rho > 0.02 at 1380 nm, where water vapour hides the ground. High, dry ground can pass it.
- water: rho < 0.02 at 2130 nm and rho550 > rho865; without those two bands, rho < 0.01 at 2130 nm, which deep shade
  passes too. Either way next to no light comes back for methane to absorb.
- flare: L > 1.5 uW cm-2 nm-1 sr-1 at 2389 nm, grown by two pixels each way, the rule of EMIT's methane product.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Float32, UInt16
from scipy import ndimage

from flame.scene.flags import SceneFlag

__all__ = ["FLARE_REACH_PX", "RULE_BANDS_NM", "RULE_FLAGS", "surface_flags"]

SOLAR_IRRADIANCE: dict[int, float] = {460: 205.0, 550: 187.0, 640: 161.0, 865: 96.0, 1380: 36.0, 1610: 24.5, 2130: 9.2}
"""E0 at the mean distance of the sun, in uW cm-2 nm-1 (0.01 W m-2 nm-1), from the TSIS-1 reference spectrum (Coddington
et al. 2021) to two or three digits, which is all that such tests need."""

FLARE_NM, FLARE_RADIANCE, FLARE_REACH_PX = 2389, 1.5, 2

RULE_BANDS_NM: dict[SceneFlag, tuple[int, ...]] = {
    SceneFlag.CLOUD: (460, 640, 1610, 2130),
    SceneFlag.SNOW: (550, 1610),
    SceneFlag.CIRRUS: (1380,),
    SceneFlag.WATER: (550, 865, 2130),
    SceneFlag.FLARE: (FLARE_NM,),
}
"""Wavelengths that each cause is looked for in: a reader need not read the others."""

RULE_FLAGS = SceneFlag.CLOUD | SceneFlag.SNOW | SceneFlag.CIRRUS | SceneFlag.WATER | SceneFlag.FLARE
"""Causes that the tests can find."""

_USUAL_SUN_ZENITH_DEG = 40.0


def surface_flags(
    layers: Mapping[int, Float32[np.ndarray, "row col"]],
    solar_zenith_deg: float | None,
    wanted: SceneFlag = RULE_FLAGS,
) -> UInt16[np.ndarray, "row col"]:
    """Flags of each pixel.

    Args:
        layers: Radiance in uW cm-2 nm-1 sr-1 by wavelength, of those in `RULE_BANDS_NM` that the file has.
        solar_zenith_deg: The sun's angle from the vertical; 40 degrees if not known.
        wanted: Causes to look for, such as those that the product has no mask for.
    """
    shape = next(iter(layers.values())).shape
    sun = _USUAL_SUN_ZENITH_DEG if solar_zenith_deg is None else min(max(solar_zenith_deg, 0.0), 80.0)
    per_radiance = np.pi / np.cos(np.deg2rad(sun))
    rho: dict[int, Float[np.ndarray, "row col"]] = {
        nm: layers[nm] * np.float32(per_radiance / irradiance)
        for nm, irradiance in SOLAR_IRRADIANCE.items()
        if nm in layers
    }
    flags = np.zeros(shape, dtype=np.uint16)

    def mark(flag: SceneFlag, where: np.ndarray) -> None:
        if flag in wanted:
            flags[where] |= np.uint16(int(flag))

    infrared = rho.get(1610, rho.get(2130))
    if infrared is not None and {460, 640} <= rho.keys():
        blue, red = rho[460], rho[640]
        white = (blue > 0.75 * red) & (blue < 1.6 * red)
        mark(SceneFlag.CLOUD, (blue > 0.3) & (red > 0.3) & white & (infrared > 0.12))
    if {550, 1610} <= rho.keys():
        green, short = rho[550], rho[1610]
        mark(SceneFlag.SNOW, (green > 0.4) & (green - short > 0.4 * (green + short)))
    if 1380 in rho:
        mark(SceneFlag.CIRRUS, rho[1380] > 0.02)
    if 2130 in rho:
        dark = rho[2130]
        both = {550, 865} <= rho.keys()
        mark(SceneFlag.WATER, (dark < 0.02) & (rho[550] > rho[865]) if both else dark < 0.01)
    if FLARE_NM in layers:
        hot = layers[FLARE_NM] > FLARE_RADIANCE
        if hot.any():
            side = 2 * FLARE_REACH_PX + 1
            mark(SceneFlag.FLARE, ndimage.binary_dilation(hot, np.ones((side, side), dtype=np.bool_)))
    return flags
