"""Numbers to colours and small picture files: PNG with a palette for maps, WebP for what the eye would see."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt8

from flame.products.layers import QUALITY_CLASSES

__all__ = ["MASK_COLOUR", "Photo", "Ramp", "class_png", "palette_png", "photo", "ramp"]

MASK_COLOUR = "#00b8d9"
_LEVELS = 64
"""Steps of a colour scale in a picture: more the eye does not see, and each makes the file larger."""
_QUALITY = 84


@dataclass(frozen=True, eq=False)
class Ramp:
    """A colour scale.

    Attributes:
        rgb: Colours from low to high.
        alpha: How opaque each is.
    """

    rgb: UInt8[np.ndarray, "level 3"]
    alpha: UInt8[np.ndarray, " level"]

    def index(
        self, values: Float[np.ndarray, "row col"], low: float, high: float, shown: Bool[np.ndarray, "row col"]
    ) -> UInt8[np.ndarray, "row col"]:
        """Palette entries of values; the entry after the last stands for what is not shown."""
        share = np.clip((np.where(shown, values, low) - low) / max(high - low, 1e-12), 0.0, 1.0)
        found = np.minimum((share * len(self.rgb)).astype(np.uint8), len(self.rgb) - 1)
        return np.asarray(np.where(shown, found, len(self.rgb)).astype(np.uint8))


@lru_cache(maxsize=16)
def ramp(name: str, fade: float = 0.0, levels: int = _LEVELS) -> Ramp:
    """Colours of matplotlib; the lowest `fade` of the scale grows from transparent to opaque."""
    from matplotlib import colormaps

    place = np.linspace(0.0, 1.0, levels)
    rgb = (255 * np.asarray(colormaps[name](place))[:, :3]).round().astype(np.uint8)
    alpha = np.clip(place / fade, 0.0, 1.0) ** 1.5 if fade > 0 else np.ones(levels)
    return Ramp(rgb, (255 * alpha).round().astype(np.uint8))


def palette_png(
    index: UInt8[np.ndarray, "row col"], rgb: UInt8[np.ndarray, "level 3"], alpha: UInt8[np.ndarray, " level"]
) -> bytes:
    """A PNG of palette entries; entries beyond the palette are clear."""
    from PIL import Image

    picture = Image.fromarray(index)
    picture.putpalette(np.concatenate([rgb, np.zeros((1, 3), np.uint8)]).tobytes())
    file = io.BytesIO()
    picture.save(file, "PNG", transparency=alpha.tobytes() + b"\0", optimize=False, compress_level=9)
    return file.getvalue()


def class_png(place: UInt8[np.ndarray, "row col"], shown: Bool[np.ndarray, "row col"]) -> bytes:
    """A PNG of quality classes; ground that may be used is clear."""
    rgb = np.array([_hex(colour) for _, colour, _, _ in QUALITY_CLASSES], np.uint8)
    alpha = np.array([0, *[235] * (len(QUALITY_CLASSES) - 1)], np.uint8)
    return palette_png(np.where(shown, place, len(QUALITY_CLASSES)).astype(np.uint8), rgb, alpha)


def _hex(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


@dataclass(frozen=True)
class Photo:
    """A picture of what the eye would see.

    Attributes:
        content: The file.
        media: Its media type.
    """

    content: bytes
    media: str


def photo(colours: Float32[np.ndarray, "row col 3"], shown: Bool[np.ndarray, "row col"]) -> Photo:
    """A picture of colours between 0 and 1, clear where nothing is shown: WebP, or PNG where Pillow has no WebP."""
    from PIL import Image, features

    rgb = (255 * np.clip(colours, 0.0, 1.0)).round().astype(np.uint8)
    alpha = np.where(shown, 255, 0).astype(np.uint8)[..., None]
    picture = Image.fromarray(np.concatenate([rgb, alpha], axis=-1))
    file = io.BytesIO()
    if features.check("webp"):
        picture.save(file, "WEBP", quality=_QUALITY, alpha_quality=100, method=4)
        return Photo(file.getvalue(), "image/webp")
    picture.quantize(256).save(file, "PNG", optimize=True)
    return Photo(file.getvalue(), "image/png")
