"""The compiled kernels of this folder, loaded for this processor; they release the interpreter while they run."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from flame.errors import FlameError
from flame.kernels.images import ImageStruct
from flame.kernels.sources import checksum

__all__ = ["SWITCH", "Kernels", "KernelsError", "load_kernels", "why_no_kernels"]

SWITCH = "FLAME_KERNELS"
"""Environment variable that names an instruction set to use instead of the best there is, or `none`."""

_SETS = ("baseline", "avx2", "avx512")
_LOG = logging.getLogger(__name__)


class KernelsError(FlameError):
    """An instruction set that was asked for and that is not there."""


_LONG, _INT, _REAL, _ADDRESS = ctypes.c_int64, ctypes.c_int32, ctypes.c_float, ctypes.c_void_p
_IMAGE = ctypes.POINTER(ImageStruct)
_ROWS = (_INT, _LONG, _LONG)
"""Threads, rows, columns: what every kernel takes first."""

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "convolve": (*(*_ROWS, _IMAGE, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, _INT, _IMAGE, _ADDRESS),),
    "convolve_down": (*_ROWS, _IMAGE, _INT, _ADDRESS, _ADDRESS, _INT, _IMAGE),
    "convolve_up": (*_ROWS, _IMAGE, _INT, _INT, _ADDRESS, _ADDRESS, _INT, _IMAGE),
    "convolve_up_onto": (*_ROWS, _IMAGE, _INT, _INT, _ADDRESS, _ADDRESS, _ADDRESS, _IMAGE),
    "transform_rows": (*_ROWS, _IMAGE, _ADDRESS, _ADDRESS),
    "transform_parts": (),
    "lift": (*_ROWS, _ADDRESS, _INT, _LONG, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _IMAGE),
    "score": (*_ROWS, _IMAGE, _ADDRESS, _INT, _LONG, _ADDRESS, _ADDRESS, _ADDRESS, _REAL, _ADDRESS, _IMAGE),
    "segment": (
        *(*_ROWS, _IMAGE, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, _INT),
        _ADDRESS,
    ),
    "rescore": (*_ROWS, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _IMAGE),
    "tell_planes": (
        *(*_ROWS, _ADDRESS, _ADDRESS, _LONG, _INT, _ADDRESS, _ADDRESS, _ADDRESS, _REAL, _ADDRESS, _ADDRESS),
    ),
    "take_logarithm": (
        *(*_ROWS, _INT, _ADDRESS, _LONG, _LONG, _LONG, _REAL, _ADDRESS, _ADDRESS, _LONG, _LONG, _ADDRESS, _ADDRESS),
    ),
    "block_sums": (*_ROWS, _ADDRESS, _INT, _LONG, _ADDRESS, _LONG, _ADDRESS),
    "fill_holes": (*_ROWS, _ADDRESS, _INT, _LONG, _ADDRESS, _LONG, _ADDRESS),
    "whiten": (*_ROWS, _ADDRESS, _INT, _LONG, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    "pixel_range": (*_ROWS, _INT, _ADDRESS, _LONG, _LONG, _LONG, _LONG, _ADDRESS, _ADDRESS, _ADDRESS, _LONG),
    "project_spectra": (
        *(*_ROWS, _INT, _ADDRESS, _LONG, _LONG, _LONG, _LONG, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _INT, _INT),
        *(_ADDRESS, _ADDRESS, _ADDRESS, _REAL, _REAL, _ADDRESS, _REAL, _ADDRESS, _INT, _INT, _INT),
        *(_ADDRESS, _ADDRESS, _ADDRESS, _LONG, _LONG),
    ),
    "finish_spectra": (*_ROWS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _INT, _REAL, _ADDRESS),
    "sample_spectra": (
        *(*_ROWS, _ADDRESS, _LONG, _LONG, _LONG, _LONG, _ADDRESS, _ADDRESS, _LONG, _ADDRESS, _INT),
        *(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
    ),
    "bin_spectra": (
        *(_INT, _LONG, _LONG, _LONG, _INT, _INT, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
        _ADDRESS,
    ),
    "filter_planes": (
        *(*_ROWS, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS, _ADDRESS, _INT, _LONG, _LONG),
        *(_ADDRESS, _ADDRESS, _ADDRESS, _LONG, _ADDRESS),
    ),
    "learn_room": (_ADDRESS, _ADDRESS),
    "learn_filter": (_ADDRESS,),
    "largest_magnitude": (_ADDRESS, _LONG),
    "pixel_fields": (*_ROWS, _ADDRESS, _ADDRESS, _ADDRESS, _INT, _REAL, _REAL, _REAL, _INT, _ADDRESS),
}

_TELLING = {"transform_parts": _INT, "filter_planes": _INT, "learn_filter": _INT, "largest_magnitude": _REAL}
"""Kernels that give a number back, and of which kind."""


class Kernels:
    """Kernels for one instruction set, as attributes: `kernels.convolve(...)`. What they take stands in the C files."""

    def __init__(self, library: ctypes.CDLL, instructions: str) -> None:
        self.instructions = instructions
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, types in _SIGNATURES.items():
            function = getattr(library, f"{name}_{instructions}")
            function.argtypes = types
            function.restype = _TELLING.get(name)
            self._functions[name] = function

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]


def load_kernels(instructions: str | None = None) -> Kernels | None:
    """The kernels for this processor, or None if there are none that can be used; `why_no_kernels` says why.

    Args:
        instructions: "baseline", "avx2" or "avx512" instead of the best there is, or "none" to do without; unless
            given, what the environment variable FLAME_KERNELS says.

    Raises:
        KernelsError: If that is no instruction set, or one that this processor lacks.
    """
    wanted = instructions or os.environ.get(SWITCH) or None
    if wanted == "none":
        return None
    if wanted is not None and wanted not in _SETS:
        raise KernelsError(f"{SWITCH}: no instruction set '{wanted}'; known are {', '.join(_SETS)} and none")
    library, _ = _opened(_path())
    if library is None:
        return None
    best = int(library.instruction_set())
    if wanted is not None and _SETS.index(wanted) > best:
        raise KernelsError(f"{SWITCH}: this processor has no {wanted}; the best it has is {_SETS[best]}")
    return _for_set(_path(), wanted or _SETS[best])


def why_no_kernels() -> str | None:
    """Why `load_kernels` gives None, in words for a user; None if it does not."""
    if os.environ.get(SWITCH) == "none":
        return f"{SWITCH} is 'none'"
    return _opened(_path())[1]


def _path() -> Path:
    return Path(__file__).with_name("kernels.so")


@cache
def _for_set(path: Path, instructions: str) -> Kernels:
    library = _opened(path)[0]
    assert library is not None
    return Kernels(library, instructions)


@cache
def _opened(path: Path) -> tuple[ctypes.CDLL | None, str | None]:
    """The library, or why it cannot be used."""
    if not path.is_file():
        return None, "this flame was built without native kernels; install a C compiler and flame again"
    try:
        library = ctypes.CDLL(str(path))
        library.kernel_sources.restype = ctypes.c_char_p
        sources = library.kernel_sources().decode()
    except OSError as failure:
        return None, f"{path}: not made for this processor ({failure}); install flame again"
    except AttributeError:
        sources = "none"
    if sources != (beside := checksum(path.parent)) and beside is not None:
        why = f"{path} was compiled from other sources than those beside it; compile it again with: pip install -e ."
        _LOG.warning("%s; until then flame runs without native kernels", why)
        return None, why
    return library, None
