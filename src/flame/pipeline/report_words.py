"""What a scene's page says in words: when and where, how it was made, what to keep in mind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flame.io.radiance_unit import UNIT_CONFLICT
from flame.plumes import SceneRecord
from flame.products import digits
from flame.products.map_view import MapView
from flame.products.stac import item_time
from flame.scene import DEFAULT_MASK, AnyScene, SceneFile, flag_names

__all__ = ["scene_facts", "scene_limits", "scene_making"]


def scene_facts(scene: AnyScene, measured: SceneRecord, facts: Mapping[str, Any], view: MapView) -> dict[str, str]:
    """Time, place, sensor, wind and what could be judged."""
    taken = item_time(scene.acquisition)
    rows, cols = view.shape
    lon, lat = view.degrees(np.array([rows / 2]), np.array([cols / 2]))
    place = digits.place(float(lon[0]), float(lat[0]))
    return {
        "Taken": taken.replace("T", " ").replace("Z", " UTC") if taken else "time not stated",
        "Middle of the scene": place if view.placed else "place not stated",
        "Sensor": facts["sensor"] or "not stated",
        "Wind": _wind(measured),
        "Pixels judged": f"{digits.share(facts['usable_pixels'], facts['rows'] * facts['columns'])} of "
        f"{facts['rows']:,} × {facts['columns']:,}",
    }


def _wind(measured: SceneRecord) -> str:
    winds = {rate.wind for plume in measured.plumes for rate in plume.rates} or set(measured.winds)
    if not winds:
        return "none for this scene" if measured.wind_notes else "none given"
    first = max(winds, key=lambda wind: wind.speed_m_s)
    if len(winds) > 1:
        least = min(wind.speed_m_s for wind in winds)
        return f"{digits.amount(least, figures=2)} to {digits.amount(first.speed_m_s, 'm/s', 2)}, {len(winds)} winds"
    words = digits.with_sigma(first.speed_m_s, first.error_m_s, "m/s")
    calm = ", nearly calm" if first.is_calm else ""
    return words + ("" if first.from_deg is None else f" from {first.from_deg % 360:.0f}°") + calm


def _outlines(facts: Mapping[str, Any]) -> str:
    level = facts["outline_level_ppm_m"]
    of = "plume" if level is None else f"more than {digits.amount(level, 'ppm m', 2)}"
    core = f"; somewhere {facts['core_sigmas']:g} σ" if facts["core_sigmas"] else ""
    return f"probability of {of} above {facts['threshold']:g}{core}"


def scene_making(facts: Mapping[str, Any], measured: SceneRecord) -> dict[str, str]:
    """Model, versions and checksums."""
    made = {
        "Software": facts["software"],
        "Plumes found by": facts["model"],
        "Outlines": _outlines(facts),
        "Run by": facts["runtime"],
        "Enhancement by": facts["enhancement"],
    }
    if any(plume.rates or plume.unit_rate for plume in measured.plumes):
        made["Effective wind"] = f"coefficients “{measured.coefficients}”"
    if measured.plumes:
        light = measured.plumes[0].light
        made["Light path"] = f"factor {light.factor:.2f}: {light.basis}"
        if (mass := measured.plumes[0].mass) is not None:
            made["Mass factor k"] = f"{_power(mass.kg_per_m2)} kg m⁻² per ppm m"
    if facts["model_sha256"]:
        made["Model's SHA-256"] = f"{facts['model_sha256'][:16]}…"
    made["Time of the detection"] = f"{facts['seconds']['total_s']:.1f} s"
    return made


def scene_limits(scene: AnyScene, measured: SceneRecord, facts: Mapping[str, Any]) -> list[str]:
    """What was not done and what to be careful with."""
    pixels = facts["rows"] * facts["columns"]
    lines = [_capital(note) for note in (*measured.notes, *measured.wind_notes)]
    if conflict := scene.acquisition.extra.get(UNIT_CONFLICT):
        lines.append(_capital(conflict))
    missing = pixels - facts["usable_pixels"]
    if missing:
        masked = flag_names(scene.rule.masked if isinstance(scene, SceneFile) else DEFAULT_MASK)
        causes = ", ".join(
            f"{name} {digits.share(count, pixels)}" for name, count in facts["pixels_flagged"].items() if name in masked
        )
        why = f" Causes: {causes}." if causes else ""
        lines.append(
            f"{digits.share(missing, pixels)} of the pixels could not be judged; plumes there are not seen.{why}"
        )
    if scene.geo is None:
        lines.append("The file does not say where the scene is: there are no areas, masses, rates or coordinates.")
    elif scene.geo.source:
        lines.append(f"Places come from {scene.geo.source}; they are as good as that is.")
    if scene.acquisition.time is None:
        lines.append("The file does not say when the scene was taken: there is no STAC item.")
    if measured.plumes:
        lines.append(
            "A ± is one standard deviation. Errors that no data tell of, such as a wrong wind file, are not in it."
        )
    if any(plume.rates for plume in measured.plumes):
        lines.append(
            "A rate holds for a steady source and a steady wind; it is of the moment when the light was taken."
        )
    if any(plume.check is None for plume in measured.plumes):
        lines.append("Not every plume's spectrum was checked.")
    if not measured.limits:
        lines.append("How weak a plume this sensor would still show here was not worked out.")
    lines.append("Found by a program. Look at a plume's spectrum and surroundings before acting on it.")
    return lines


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _power(value: float) -> str:
    """`5.591 × 10⁻⁷`."""
    digits_, exponent = f"{value:.3e}".split("e")
    return f"{digits_} × 10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
