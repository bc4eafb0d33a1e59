"""Recognises radiance units in the words of a file's header."""

from __future__ import annotations

import re

from flame.physics import RADIANCE_UNIT

__all__ = ["find_radiance_unit"]

_POWER = {"uw": "uW", "microwatt": "uW", "mw": "mW", "milliwatt": "mW", "w": "W", "watt": "W"}
_AREA = {"cm": "cm", "centimeter": "cm", "centimetre": "cm", "m": "m", "meter": "m", "metre": "m"}
_SPECTRAL = {"nm": "nm", "nanometer": "nm", "um": "um", "micron": "um", "micrometer": "um"}
_ANGLE = {"sr": "sr", "steradian": "sr"}


def find_radiance_unit(text: str) -> str | None:
    """The radiance unit a text speaks of, spelled as in `flame.physics.units`; None if it names none.

    Takes `uW nm-1 cm-2 sr-1`, `W/(m^2 sr um)`, `microwatts per square centimeter per nanometer per steradian` and the
    like, in any order.
    """
    words = re.findall(r"[a-z]+", text.lower().replace("µ", "u").replace("μ", "u").replace("metre", "meter"))
    words = [word.removesuffix("s") if len(word) > 3 else word for word in words]
    parts = [[names[word] for word in words if word in names] for names in (_POWER, _AREA, _SPECTRAL, _ANGLE)]
    if not all(parts):
        return None
    power, area, spectral, angle = (found[-1] for found in parts)
    unit = f"{power} {area}-2 {spectral}-1 {angle}-1"
    return RADIANCE_UNIT if unit == "mW cm-2 um-1 sr-1" else unit
