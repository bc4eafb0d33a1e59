"""QGIS styles: a `.qml` of the same name beside a map or the plumes is taken up when QGIS opens it."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from flame.files import write_whole
from flame.products.colours import MASK_COLOUR, ramp
from flame.products.layers import FADE, LAYERS
from flame.scene import SceneFlag

__all__ = ["write_plume_style", "write_raster_style"]

_DOCTYPE = "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
_VERSION = "3.28"
_STOPS = 9


def write_raster_style(path: Path, name: str, top: float) -> None:
    """Writes the style of a map.

    Args:
        path: The `.qml` file.
        name: Which of `LAYERS`.
        top: Value at the top of its scale, for those that have one.
    """
    root = Element("qgis", version=_VERSION, styleCategories="Symbology")
    pipe = SubElement(root, "pipe")
    kind = LAYERS[name]
    if kind.colours is not None:
        _shaded(pipe, kind.colours, top, fade=name == "enhancement")
    else:
        _classes(pipe, _MASK if name == "mask" else _FLAGS, band=1 if name == "mask" else 2)
    indent(root)
    write_whole(path, _DOCTYPE + tostring(root, encoding="unicode") + "\n")


def _shaded(pipe: Element, colours: str, top: float, fade: bool) -> None:
    renderer = SubElement(pipe, "rasterrenderer", type="singlebandpseudocolor", band="1", opacity="1", alphaBand="-1")
    renderer.set("classificationMin", "0")
    renderer.set("classificationMax", f"{top:g}")
    shader = SubElement(SubElement(renderer, "rastershader"), "colorrampshader")
    for key, value in (("colorRampType", "INTERPOLATED"), ("classificationMode", "1"), ("clip", "0")):
        shader.set(key, value)
    scale = ramp(colours, FADE if fade else 0.0, _STOPS)
    for value, rgb, alpha in zip(np.linspace(0.0, top, _STOPS), scale.rgb, scale.alpha, strict=True):
        colour = "#" + "".join(f"{part:02x}" for part in rgb)
        SubElement(shader, "item", value=f"{value:g}", label=f"{value:g}", color=colour, alpha=str(int(alpha)))


_MASK = ((0, "no plume", MASK_COLOUR, 0), (1, "plume", MASK_COLOUR, 200))
_FLAGS = (
    (0, "usable", "#ffffff", 0),
    (int(SceneFlag.CLOUD), "cloud", "#8fd0d8", 255),
    (int(SceneFlag.CIRRUS), "cirrus", "#b5e0e5", 255),
    (int(SceneFlag.WATER), "water", "#5b8fc7", 255),
    (int(SceneFlag.FILL), "no measurement", "#3b3f46", 255),
    (int(SceneFlag.DETECTOR), "detector", "#6b5f5f", 255),
    (int(SceneFlag.SATURATED), "saturated", "#e2725b", 255),
    (int(SceneFlag.FLARE), "flare", "#c0392b", 255),
    (int(SceneFlag.SNOW), "snow", "#e8f4f8", 255),
)
"""Causes that come alone; a pixel with several keeps QGIS's colour for other values, which is none."""


def _classes(pipe: Element, classes: tuple[tuple[int, str, str, int], ...], band: int) -> None:
    renderer = SubElement(pipe, "rasterrenderer", type="paletted", band=str(band), opacity="1", alphaBand="-1")
    palette = SubElement(renderer, "colorPalette")
    for value, label, colour, alpha in classes:
        SubElement(palette, "paletteEntry", value=str(value), label=label, color=colour, alpha=str(alpha))


def write_plume_style(path: Path, label: str) -> None:
    """Writes the style of the plumes: an outline, and the field `label` beside it."""
    root = Element("qgis", version=_VERSION, styleCategories="Symbology|Labeling", labelsEnabled="1")
    renderer = SubElement(root, "renderer-v2", type="singleSymbol")
    symbol = SubElement(SubElement(renderer, "symbols"), "symbol", type="fill", name="0", alpha="1")
    fill = SubElement(SubElement(symbol, "layer", attrib={"class": "SimpleFill", "enabled": "1"}), "Option", type="Map")
    for key, value in (("style", "no"), ("outline_color", "0,184,217,255"), ("outline_width", "0.5")):
        SubElement(fill, "Option", type="QString", name=key, value=value)
    labelling = SubElement(root, "labeling", type="simple")
    text = SubElement(SubElement(labelling, "settings", calloutType="simple"), "text-style", fieldName=label)
    text.set("fontSize", "9")
    indent(root)
    write_whole(path, _DOCTYPE + tostring(root, encoding="unicode") + "\n")
