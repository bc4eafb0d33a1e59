"""The report of one scene: a map to look around in, its plumes, how they were found, and what was not done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from flame.detection import outline
from flame.plumes import DetectionLimit, PlumeRecord, SceneRecord, plume_letters
from flame.products import digits
from flame.products.html_page import data_uri, file_link, table, write_page
from flame.products.layers import LAYERS, QUALITY_CLASSES, SceneMaps
from flame.products.map_view import MapView
from flame.products.pictures import Overview, Scales, close_pictures, overview
from flame.products.plume_section import CloseView, Truth, anchor, headline, plume_article, plume_choice, svg_path
from flame.products.quicklook import close_window, stretched_rgb
from flame.scene import AnyScene

__all__ = ["MOST_DETAILED", "SceneReport", "write_scene_page"]

MOST_DETAILED = 30
"""So many plumes, the heaviest, have their own part of the page; the others stand in the list."""


@dataclass(frozen=True, eq=False)
class SceneReport:
    """What a page says that is not in the maps.

    Attributes:
        source: Name of the scene.
        facts: Short facts under the headline, by name: time, place, sensor, wind.
        made: How it was made, by name: model, version, checksums.
        limits: What was not done and what to be careful with, in sentences.
        files: The scene's files and what each is.
        truth_mask: The true plume mask of a simulated scene.
        truths: What is known of each plume of a simulated scene, in the order of the records.
        truth_rows: True sources of a simulated scene: each one's name, true rate, and what was found of it.
        above: The page of the batch, relative to this one.
    """

    source: str
    facts: Mapping[str, str]
    made: Mapping[str, str]
    limits: Sequence[str]
    files: Mapping[str, str]
    truth_mask: Bool[np.ndarray, "row col"] | None = None
    truths: Sequence[Truth] = ()
    truth_rows: Sequence[tuple[str, str, str]] = field(default_factory=tuple)
    above: str | None = None


def write_scene_page(
    path: Path, scene: AnyScene, maps: SceneMaps, record: SceneRecord, report: SceneReport, view: MapView | None = None
) -> None:
    """Writes the page.

    Args:
        path: The file.
        scene: What was looked at.
        maps: What was found.
        record: The plumes with their numbers.
        report: What else to say.
        view: The scene's map; made unless given.
    """
    view = view or MapView.of(scene.geo, scene.shape)
    page = _Page(view, maps, record, report, stretched_rgb(scene))
    title = f"{page.headline} – {report.source}"
    write_page(path, title, page.body(), page.data())


class _Page:
    """One page while it is written."""

    def __init__(
        self,
        view: MapView,
        maps: SceneMaps,
        record: SceneRecord,
        report: SceneReport,
        colours: Float[np.ndarray, "row col 3"],
    ) -> None:
        self._view, self._maps, self._record, self._report = view, maps, record, report
        self._scales = Scales.of(maps)
        self._pictures: Overview = overview(view, colours, maps, self._scales)
        mask = report.truth_mask
        self._truth_rings = view.rings(outline(mask)) if mask is not None else []
        self._rings = [view.rings(plume.plume.polygons) for plume in record.plumes]
        self._close = [self._close_view(at, colours) for at in range(min(len(record.plumes), MOST_DETAILED))]

    @property
    def headline(self) -> str:
        """What was found, in one line."""
        plumes = self._record.plumes
        if not self._maps.usable.any():
            return "Not judged: no pixel could be used"
        if not plumes:
            return "No methane plume found"
        if len(plumes) == 1:
            return f"One methane plume: {headline(plumes[0])}"
        # The plume of the most mass need not be that of the highest rate.
        strongest = max(plumes, key=lambda plume: 0.0 if plume.rate is None else plume.rate.kg_h)
        if strongest.rate is not None:
            return f"{len(plumes)} methane plumes, the strongest {headline(strongest)}"
        return f"{len(plumes)} methane plumes, the largest {headline(plumes[0])}"

    def data(self) -> dict[str, Any]:
        """What the viewer's script needs."""
        view, step = self._view, self._pictures.step
        width, height = self._pictures.size
        found: dict[str, Any] = {
            "shape": [view.shape[0], round(view.shape[1] * view.aspect, 4)],
            "step": step,
            "cover": [height * step, round(width * step * view.aspect, 4)],
            "cell_m": round(view.cell_m[0], 6) if np.isfinite(view.cell_m[0]) else None,
            "nodes": None,
            "plumes": [self._plume_data(at, record) for at, record in enumerate(self._record.plumes)],
        }
        lon, lat = view.nodes()
        if view.placed and np.isfinite(lon).all() and np.isfinite(lat).all():
            found["nodes"] = {"lon": lon.round(7).tolist(), "lat": lat.round(7).tolist()}
        return found

    def _plume_data(self, at: int, record: PlumeRecord) -> dict[str, Any]:
        found: dict[str, Any] = {"id": record.id, "number": record.number, "letter": plume_letters(record.number)}
        found |= {"anchor": anchor(record), "box": None, "label": None, "window": None}
        if self._rings[at]:
            corners = np.concatenate(self._rings[at]) * (1.0, self._view.aspect)
            (top, left), (bottom, right) = corners.min(axis=0), corners.max(axis=0)
            found["box"] = [round(float(v), 2) for v in (top, left, bottom - top, right - left)]
            above = corners[corners[:, 0] < top + 0.02 * (bottom - top) + 0.01]
            found["label"] = [round(float(top), 2), round(float(above[:, 1].mean()), 2)]
        if at < len(self._close) and (close := self._close[at]) is not None:
            left, width = (round(side * close.aspect, 4) for side in (close.first_col, close.cols))
            found["window"] = [close.first_row, left, close.rows, width]
        return found

    def _close_view(self, at: int, colours: Float[np.ndarray, "row col 3"]) -> CloseView | None:
        record = self._record.plumes[at]
        window = close_window(self._view, record.plume)
        if window is None:
            return None
        rows, cols = window
        pictures = close_pictures(self._view, colours, self._maps, self._scales, window)
        row, col = self._view.cells(np.array([record.source.row]), np.array([record.source.col]))
        source = (float(row[0]), float(col[0])) if np.isfinite(row[0]) and np.isfinite(col[0]) else None
        near = [
            ring
            for ring in self._truth_rings
            if (ring.max(axis=0) >= (rows.start, cols.start)).all()
            and (ring.min(axis=0) <= (rows.stop, cols.stop)).all()
        ]
        size = rows.start, cols.start, rows.stop - rows.start, cols.stop - cols.start
        ground = self._view.aspect, size[3] * self._view.cell_m[1]
        return CloseView(*size, *pictures, self._rings[at], near, source, *ground)

    def body(self) -> Iterator[str]:
        """The page, part by part."""
        report, plumes = self._report, self._record.plumes
        facts = "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in report.facts.items()
        )
        above = file_link(report.above, "All scenes of this run") if report.above else ""
        yield (
            '<a class="skip" href="#plumes">Skip the map</a><header class="top">'
            '<p class="brand">FLAME methane report</p>'
            f'<h1>{escape(self.headline)}</h1><p class="subject">{escape(report.source)}{above}</p>'
            f'<dl class="facts">{facts}</dl></header>\n<main>'
        )
        yield from self._viewer()
        yield '<section id="plumes" aria-label="Plumes">'
        if report.truth_rows:
            yield "<h2>The truth beside what was found</h2><p>This scene was simulated, so its sources are known.</p>"
            head = (("source", False), ("true rate", True), ("found", False))
            yield table(head, ([escape(cell) for cell in row] for row in report.truth_rows))
        if plumes:
            yield "<h2>Plumes</h2>"
        for at, record in enumerate(plumes[:MOST_DETAILED]):
            yield plume_article(record, self._close[at], report.truths[at] if at < len(report.truths) else None) + "\n"
        if len(plumes) > MOST_DETAILED:
            rest = len(plumes) - MOST_DETAILED
            yield f"<p>{rest} weaker plumes are in the list above and in plumes.geojson only.</p>"
        yield "</section>"
        yield _limits(self._record.limits, bool(plumes))
        limits = "".join(f"<li>{escape(line)}</li>" for line in report.limits)
        made = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in report.made.items())
        yield (
            f'<div class="two"><section><h2>What to keep in mind</h2><ul>{limits}</ul></section>'
            f'<section><h2>How it was made</h2><table class="numbers">{made}</table></section></div>'
        )
        shown = {name: about for name, about in report.files.items() if not name.endswith(".qml")}
        links = "".join(
            f"<li>{file_link(name, name)}<span>{escape(about)}</span></li>" for name, about in shown.items()
        )
        yield f'<section><h2>Files</h2><ul class="files">{links}</ul></section></main>\n'
        software = report.made.get("Software", "flame")
        words = f"Made by {software}. This page needs no network; it can be sent as it is."
        yield f"<footer><p>{escape(words)}</p></footer>\n"

    def _viewer(self) -> Iterator[str]:
        names = [name for name in LAYERS if name in self._pictures.layers]
        first = "enhancement"
        choices = "".join(
            f'<label class="choice"><input type="radio" name="layer" value="{name}"'
            f"{' checked' if name == first else ''}><span>{escape(text)}</span></label>"
            for name, text in [("none", "RGB"), *((name, name.capitalize()) for name in names)]
        )
        tick = (
            '<label class="tick"><input type="checkbox" id="show-truth" checked>True outlines</label>'
            if self._truth_rings
            else ""
        )
        yield (
            '<section class="viewer" aria-label="Map"><div><div class="bar">'
            f"<fieldset><legend>Layer over the ground</legend>{choices}</fieldset>"
            '<label class="slide">Opacity <input type="range" id="opacity" min="0" max="100" value="90"></label>'
            f'<label class="tick"><input type="checkbox" id="show-outlines" checked>Outlines</label>{tick}</div>'
            '<div class="map" id="map" tabindex="0" role="application" aria-describedby="map-help" '
            'aria-label="Map of the scene"><div class="stage" id="stage">'
            '<img id="ground" alt="The scene as the eye would see it" '
            f'src="{data_uri(self._pictures.ground.content, self._pictures.ground.media)}">'
        )
        for name in names:
            alt = f"{LAYERS[name].titled} of the scene"
            shown = "" if name == first else " hidden"
            picture = data_uri(self._pictures.layers[name], "image/png")
            yield f'<img data-layer="{name}" alt="{escape(alt)}" src="{picture}"{shown}>'
        rows, cols = self._view.shape[0], round(self._view.shape[1] * self._view.aspect, 4)
        paths = "".join(
            f'<path data-plume="{record.number}" d="{svg_path(rings, self._view.aspect)}"/>'
            for record, rings in zip(self._record.plumes, self._rings, strict=True)
        )
        true = (
            f'<path class="truth" d="{svg_path(self._truth_rings, self._view.aspect)}"/>' if self._truth_rings else ""
        )
        yield (
            f'<svg id="outlines" viewBox="0 0 {cols} {rows}" width="{cols}" height="{rows}" aria-hidden="true">'
            f"{true}{paths}"
            '</svg></div><div class="scale" id="scale"><span></span><i></i></div>'
            f"{_north(self._view.north_deg)}"
            '<div class="zoom"><button type="button" id="zoom-in" aria-label="Zoom in">+</button>'
            '<button type="button" id="zoom-out" aria-label="Zoom out">−</button>'
            '<button type="button" id="zoom-all" aria-label="Show the whole scene">⤢</button></div></div>'
            f'<div class="under"><div>{self._legends()}</div><div><span class="where" id="where"></span> '
            f'<span id="map-help">{escape(self._help())}</span></div></div></div>'
        )
        items = "".join(plume_choice(record, at < MOST_DETAILED) for at, record in enumerate(self._record.plumes))
        inside = (
            f"<ol>{items}</ol>"
            if items
            else '<p class="empty">No plume was found in the pixels that could be judged.</p>'
        )
        yield f'<nav class="list" aria-label="Plumes"><h2>Plumes, largest first</h2>{inside}</nav></section>'

    def _help(self) -> str:
        step = self._pictures.step
        coarse = f" One picture point is {step} × {step} cells, but each plume is in full." if step > 1 else ""
        return f"Drag, pinch or scroll; arrows, + and − and 0 on the keyboard.{coarse}"

    def _legends(self) -> str:
        parts = []
        for name in self._pictures.layers:
            if name in self._pictures.legends:
                legend = self._pictures.legends[name]
                unit = "ppm m" if LAYERS[name].unit != "1" else ""
                faded = ", weak values fade out" if name == "enhancement" else ""
                content = (
                    f"{escape(LAYERS[name].title.capitalize())} {digits.amount(legend.low)}"
                    f'<img alt="colours from low to high" src="{data_uri(legend.picture, "image/png")}">'
                    f"{digits.amount(legend.high, unit)}{faded}"
                )
            elif name == "quality":
                classes = "".join(
                    f"<li>{_swatch(colour)}{escape(label)}</li>" for label, colour, _, _ in QUALITY_CLASSES[1:]
                )
                content = f"<ul>{classes}</ul>"
            else:
                content = f"{_swatch('#00b8d9')}Plume pixels"
            parts.append(f'<div class="legend" data-legend="{name}" hidden>{content}</div>')
        return "".join(parts)


def _swatch(colour: str) -> str:
    return f'<svg viewBox="0 0 8 8" aria-hidden="true"><rect width="8" height="8" fill="{colour}"/></svg>'


def _north(degrees: float) -> str:
    if not np.isfinite(degrees):
        return ""
    angle = np.deg2rad(degrees)
    return (
        '<svg class="north" viewBox="-18 -24 36 46" role="img" aria-label="North">'
        f'<g transform="rotate({degrees:.1f})"><path class="half" d="M0 -10 L7 14 L0 8 Z"/>'
        '<path d="M0 -10 L-7 14 L0 8 Z"/></g>'
        f'<text x="{17 * np.sin(angle):.1f}" y="{-17 * np.cos(angle) + 4:.1f}" text-anchor="middle">N</text></svg>'
    )


def _limits(limits: Sequence[DetectionLimit], found: bool) -> str:
    """What the scene could have shown; nothing where that was never worked out."""
    if not limits:
        return ""
    rows = [
        [
            digits.amount(limit.wind_m_s, "m/s", 2),
            digits.amount(limit.kg_h_50, "kg/h", 2),
            digits.amount(limit.kg_h_90, "kg/h", 2),
        ]
        for limit in limits
    ]
    head = (("wind", True), ("half of such plumes are found", True), ("nine in ten are found", True))
    more = "other sources" if found else "sources"
    return (
        "<section><h2>What this scene could have shown</h2>"
        f"<p>Weaker {more} than these may be there and not be seen. From {escape(limits[0].basis)}.</p>"
        f"{table(head, rows)}</section>"
    )
