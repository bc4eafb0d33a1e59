"""Whether the native runtime of another processor gives the same masks as this one's.

Here:                python tools/runtime_check.py --write expected.npz
There, or emulated:  python tools/runtime_check.py --compare expected.npz

docs/flight.md says how the second runs on an emulated aarch64. It needs NumPy and SciPy of that processor; where
safetensors is missing, a reader of its format below takes its place.
"""

from __future__ import annotations

import argparse
import json
import platform
import struct
import sys
import time
import types
from pathlib import Path

import numpy as np


def _stand_in_for_safetensors() -> None:
    """The format is a length, a JSON header and the arrays (huggingface.co/docs/safetensors)."""

    def load(content: bytes) -> dict[str, np.ndarray]:
        (length,) = struct.unpack_from("<Q", content)
        header = json.loads(content[8 : 8 + length])
        header.pop("__metadata__", None)
        arrays = {}
        for name, entry in header.items():
            low, high = (8 + length + offset for offset in entry["data_offsets"])
            arrays[name] = np.frombuffer(content[low:high], "<f4").reshape(entry["shape"]).copy()
        return arrays

    numpy_part = types.ModuleType("safetensors.numpy")
    numpy_part.load = load  # type: ignore[attr-defined]
    whole = types.ModuleType("safetensors")
    whole.numpy, whole.SafetensorError = numpy_part, ValueError  # type: ignore[attr-defined]
    sys.modules |= {"safetensors": whole, "safetensors.numpy": numpy_part}


def _judge(model: str | None) -> tuple[np.ndarray, np.ndarray, str, float]:
    from flame.detection import plume_mask
    from flame.onboard import Asked, Detector
    from flame.onboard.guard import Runtime, known_tile
    from flame.onboard.strip import judge_known

    detector = Detector(model, "native", threads=1, asked=Asked(level="visible"))
    known = known_tile(detector.manifest)
    began = time.process_time()
    judged = judge_known(Runtime(detector._backend, detector._preparer), known)
    seconds = time.process_time() - began
    if judged.maps is None:
        raise SystemExit("error: the known tile could not be judged")
    mask = plume_mask(judged.maps[0], judged.tile.usable, detector.rule.of_pixels)
    return judged.maps[0], mask, f"{detector.runtime} on {platform.machine()}", seconds


def main() -> None:
    """Writes the mask of the known tile, or compares it with one that was written."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model")
    which = options.add_mutually_exclusive_group(required=True)
    which.add_argument("--write", type=Path)
    which.add_argument("--compare", type=Path)
    given = options.parse_args()
    try:
        import safetensors.numpy  # noqa: F401
    except ImportError:
        _stand_in_for_safetensors()
    probability, mask, where, seconds = _judge(given.model)
    print(f"{where}: {mask.sum()} plume pixels, {seconds:.2f} s of processor time")
    if given.write is not None:
        np.savez(given.write, probability=probability, mask=mask)
        return
    expected = np.load(given.compare)
    furthest = float(np.abs(probability - expected["probability"]).max())
    differing = int((mask != expected["mask"]).sum())
    print(f"probabilities differ by at most {furthest:.2e}, masks in {differing} of {mask.size} pixels")
    if differing or not mask.any():
        raise SystemExit("error: the masks are not the same")


if __name__ == "__main__":
    main()
