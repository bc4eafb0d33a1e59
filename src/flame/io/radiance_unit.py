"""Recognises radiance units in the words of a file's header."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path

from flame.io.errors import ReaderError
from flame.io.options import OpenOptions
from flame.physics import RADIANCE_UNIT, UnknownUnitError, radiance_scale

__all__ = ["UNIT_CONFLICT", "find_radiance_unit", "scale_to_radiance", "told_unit", "unit_not_used"]

UNIT_CONFLICT = "radiance_unit_conflict"
"""Name of the note on a unit that the user told against what the file says, or that could not be used."""

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


def told_unit(options: OpenOptions, stated: str | None) -> dict[str, str]:
    """Notes on a unit that the user told, which wins; that the file says another one is never passed over.

    Args:
        options: What the user says.
        stated: The unit that the file or its product's description says, if any.
    """
    told = options.stated_scale
    if told is None:
        return {}
    notes = {"radiance_unit": f"{options.unit or f'scale {told:g}'}, as told when it was opened"}
    try:
        differs = stated is not None and not math.isclose(told, radiance_scale(stated), rel_tol=1e-6)
    except UnknownUnitError:
        differs = True
    if differs:
        notes["radiance_unit"] += f"; the file or its product says {stated}"
        notes[UNIT_CONFLICT] = (
            f"the radiance unit is {options.unit or f'{told:g} {RADIANCE_UNIT}'} as told with "
            f"{'--unit' if options.unit else '--scale'}, against {stated}, which the file or its product says"
        )
    return notes


def scale_to_radiance(
    path: Path,
    words: Iterable[str],
    options: OpenOptions,
    *,
    by_product: str | None = None,
    counts: str | None = None,
    reflectance: bool = False,
) -> tuple[float, dict[str, str]]:
    """Factor from a file's numbers to `RADIANCE_UNIT`, and a note on where it comes from; never a guess.

    Args:
        path: The file, for messages.
        words: What the file says that may name a unit.
        options: What the user says, which wins.
        by_product: The unit that this kind of product is specified to have, if the file does not say.
        counts: Type of the stored numbers if they are whole numbers without a gain.
        reflectance: Whether the file says in another way that it holds reflectance.

    Raises:
        ReaderError: If the unit is not known, or what is stored is no radiance.
    """
    words = list(words)
    stated = next((found for text in words if (found := find_radiance_unit(text))), None)
    told = options.stated_scale
    if told is not None:
        return told, told_unit(options, stated or by_product)
    how = f"pass --unit with one of FLAME's units, or --scale with what 1 is in {RADIANCE_UNIT}"
    if stated is not None and not reflectance:
        try:
            return radiance_scale(stated), {"radiance_unit": f"{stated}, as the file says"}
        except UnknownUnitError as failure:
            raise ReaderError(path, str(failure), how) from failure
    if reflectance or any("reflectance" in text.lower() for text in words):
        raise ReaderError(
            path,
            "holds reflectance, in which the sun and the atmosphere have been divided out",
            f"give the radiance product (level 1); if it is radiance after all, {how}",
        )
    if by_product is not None:
        return radiance_scale(by_product), {"radiance_unit": f"{by_product}, as the product is specified"}
    if counts is not None:
        raise ReaderError(path, f"holds {counts} values of no stated radiance unit and no gain, perhaps counts", how)
    raise ReaderError(path, "does not say its radiance unit", how)


def unit_not_used(options: OpenOptions, why: str) -> dict[str, str]:
    """Notes on a unit that the user told of a file to which it cannot be applied; none if none was told."""
    if options.stated_scale is None:
        return {}
    named = "--unit" if options.unit else "--scale"
    return {"radiance_unit": f"{why}; {named} was not used", UNIT_CONFLICT: f"{named} was not used: {why}"}
