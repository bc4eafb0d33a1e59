"""One plume on the page: a close view, its numbers with their sigmas, and its spectrum with the check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from jaxtyping import Float

from flame.detection.spectral_check import SpectralCheck
from flame.plumes import PlumeRecord, UnitRate, plume_letters
from flame.products import digits
from flame.products.colours import Photo
from flame.products.html_page import data_uri
from flame.products.svg_plot import Line, line_plot
from flame.rates import Rate

__all__ = ["CloseView", "Truth", "anchor", "headline", "method_name", "plume_article", "plume_choice", "svg_path"]

_SURE, _LIKELY = 0.01, 0.05
_METHODS = {
    "ime": "mass and effective wind",
    "fetch": "mass over fetch",
    "cross-section": "flux through cross-sections",
}


@dataclass(frozen=True)
class Truth:
    """What is known of a simulated plume.

    Attributes:
        kg_h: True emission rate of its sources; 0 for a false plume.
        words: The comparison in a sentence.
    """

    kg_h: float
    words: str


@dataclass(frozen=True, eq=False)
class CloseView:
    """Pictures of a plume and its surroundings.

    Attributes:
        first_row: Place of the window on the map, with `first_col`.
        first_col: See `first_row`.
        rows: Size of the window.
        cols: See `rows`.
        ground: What the eye would see.
        enhancement: PNG of the same size.
        outline: Rings of the plume, in cells of the map.
        truth: Rings of true plumes in the window.
        source: Where the plume begins, in cells of the map; None if not known.
        aspect: Width of a cell over its height.
        width_m: Width of the window on the ground.
    """

    first_row: int
    first_col: int
    rows: int
    cols: int
    ground: Photo
    enhancement: bytes
    outline: Sequence[Float[np.ndarray, "_corner 2"]]
    truth: Sequence[Float[np.ndarray, "_corner 2"]]
    source: tuple[float, float] | None
    aspect: float
    width_m: float


def anchor(record: PlumeRecord) -> str:
    """The id of a plume's part of the page."""
    return f"plume-{plume_letters(record.number)}"


def method_name(method: str) -> str:
    """How a rate was found, for people."""
    return _METHODS.get(method, method)


def headline(record: PlumeRecord) -> str:
    """The one number of a plume: its rate, else its mass, else its strongest enhancement."""
    if record.rate is not None:
        return digits.with_sigma(record.rate.kg_h, record.rate.sigma_kg_h, "kg/h")
    if record.mass is not None:
        return digits.with_sigma(record.mass.ime_kg, record.mass.sigma_kg, "kg")
    return f"{digits.amount(record.plume.peak_ppm_m, 'ppm m')} at its peak"


def svg_path(
    rings: Sequence[Float[np.ndarray, "_corner 2"]], aspect: float, row: digits.Number = 0, col: digits.Number = 0
) -> str:
    """Rings of (row, col) as an SVG path with its origin there, in heights of a row; a column is `aspect` wide."""
    return "".join(
        "M" + "L".join(f"{round(float(c - col) * aspect, 2):g} {round(float(r - row), 2):g}" for r, c in ring) + "Z"
        for ring in rings
    )


def _badge(check: SpectralCheck | None) -> str:
    if check is None:
        return '<span class="badge">spectrum not checked</span>'
    if check.p_value <= _SURE and check.alpha_ppm_m > 0:
        return '<span class="badge good">spectrum agrees with methane</span>'
    if check.p_value <= _LIKELY and check.alpha_ppm_m > 0:
        return '<span class="badge">spectrum is likely methane</span>'
    return '<span class="badge warn">spectrum does not confirm methane</span>'


def plume_choice(record: PlumeRecord, detailed: bool) -> str:
    """The plume's entry in the list beside the map."""
    letter = plume_letters(record.number)
    less = []
    if record.rate is not None and record.mass is not None:
        less.append(digits.with_sigma(record.mass.ime_kg, record.mass.sigma_kg, "kg"))
        if record.rate.wind.is_calm:
            less.append("nearly calm")
    if record.shape is not None:
        less.append(f"{digits.length(record.shape.length_m)} long")
    if not less:
        less.append(f"{record.plume.area_px:,} pixels")
    more = f'<a class="more" href="#{anchor(record)}">Numbers and spectrum of {letter}</a>' if detailed else ""
    return (
        f'<li><button type="button" class="pick" data-plume="{record.number}" aria-current="false">'
        f'<span class="letter">{letter}</span><span class="main">{escape(headline(record))}</span>'
        f'<span class="less">{escape(", ".join(less))}</span><span>{_badge(record.check)}</span></button>{more}</li>'
    )


def plume_article(record: PlumeRecord, close: CloseView | None, truth: Truth | None) -> str:
    """A plume's part of the page."""
    letter = plume_letters(record.number)
    parts = [
        f'<article class="plume" id="{anchor(record)}" aria-labelledby="{anchor(record)}-name"><header>'
        f'<h3 id="{anchor(record)}-name">Plume {letter}</h3>{_badge(record.check)}'
        f'<span class="id">{escape(record.id)}</span></header><div class="body">'
    ]
    if close is not None:
        parts.append(_close(letter, close))
    parts.append(f"<div>{_numbers(record, truth)}</div><div>{_spectrum(record.check)}</div></div></article>")
    return "".join(parts)


def _close(letter: str, close: CloseView) -> str:
    width, origin = close.cols * close.aspect, (close.first_row, close.first_col)
    source = ""
    if close.source is not None:
        row, col = close.source[0] - close.first_row, (close.source[1] - close.first_col) * close.aspect
        size = max(close.rows, width) / 40
        source = f'<circle class="source" cx="{col:.2f}" cy="{row:.2f}" r="{size:.2f}"/>'
    true = f'<path class="truth" d="{svg_path(close.truth, close.aspect, *origin)}"/>' if close.truth else ""
    known = " Dashed: its true outline." if close.truth else ""
    across = f"{digits.length(close.width_m)} across. " if np.isfinite(close.width_m) else ""
    pictures = "".join(
        f'<image data-close="{kind}" width="{width:.3f}" height="{close.rows}" preserveAspectRatio="none" '
        f'href="{href}"/>'
        for kind, href in (
            ("ground", data_uri(close.ground.content, close.ground.media)),
            ("enhancement", data_uri(close.enhancement, "image/png")),
        )
    )
    return (
        f'<figure class="close"><svg viewBox="0 0 {width:.3f} {close.rows}" role="img" '
        f'aria-label="Plume {letter} from above: its outline and enhancement over the ground">{pictures}{true}'
        f'<path d="{svg_path(close.outline, close.aspect, *origin)}"/>{source}</svg>'
        f"<figcaption>{across}Outline of the plume over its enhancement; the circle is where it seems to begin."
        f"{known}</figcaption></figure>"
    )


def _numbers(record: PlumeRecord, truth: Truth | None) -> str:
    plume, shape, mass = record.plume, record.shape, record.mass
    parts = [f'<p class="big">{escape(headline(record))}</p>', f"<p>{escape(_basis(record))}</p>"]
    if truth is not None:
        parts.append(f'<p class="truth-note">{escape(truth.words)}</p>')
    rows: list[tuple[str, str]] = []
    if mass is not None:
        rows.append(("Methane in the plume", digits.with_sigma(mass.ime_kg, mass.sigma_kg, "kg")))
    if record.unit_rate is not None:
        rows += _unit_rate(record.unit_rate)
    rows.append(("Peak enhancement", digits.amount(plume.peak_ppm_m, "ppm m")))
    rows.append(("Mean enhancement", digits.amount(plume.mean_ppm_m, "ppm m")))
    if mass is not None:
        rows.append(("Background taken off", digits.amount(mass.background_ppm_m, "ppm m", 2)))
    area = f"{digits.area(mass.area_m2)}, {plume.area_px:,} pixels" if mass is not None else f"{plume.area_px:,} pixels"
    rows.append(("Area", area))
    if shape is not None:
        rows.append(("Length and width", f"{digits.length(shape.length_m)} × {digits.length(shape.width_m)}"))
        rows.append(("Direction", f"toward {shape.to_deg:.0f}° ({_compass(shape.to_deg)})"))
    if record.source.longitude_deg is not None:
        rows.append(("Begins at", digits.place(record.source.longitude_deg, record.source.latitude_deg, 5)))
    rows.append(("Begins in pixel", f"row {math.floor(record.source.row)}, column {math.floor(record.source.col)}"))
    if plume.parts > 1:
        rows.append(("Joined from", f"{plume.parts} parts"))
    rows.append(("Mean probability", f"{plume.confidence:.2f}"))
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    parts.append(f'<table class="numbers">{cells}</table>')
    if len(record.rates) > 1:
        parts.append(_rates(record.rates))
    if record.notes:
        parts.append(
            '<ul class="notes">' + "".join(f"<li>{escape(_sentence(note))}</li>" for note in record.notes) + "</ul>"
        )
    return "".join(parts)


def _basis(record: PlumeRecord) -> str:
    """What the headline rests on."""
    rate = record.rate
    if rate is not None:
        wind = digits.with_sigma(rate.wind.speed_m_s, rate.wind.error_m_s, "m/s")
        notes = "".join(f". {_sentence(note).rstrip('.')}" for note in rate.all_notes)
        return f"emission rate by {method_name(rate.method)}, with a wind of {wind}; ± is one standard deviation{notes}"
    if record.mass is not None:
        return "methane above the surroundings; no rate without a wind; ± is one standard deviation"
    return "the scene does not say where it is, so there is no mass"


def _unit_rate(unit: UnitRate) -> list[tuple[str, str]]:
    """For a wind of one's own: the slope, what it rests on, and what is added to it."""
    slope = digits.with_sigma(unit.kg_h_per_m_s, unit.sigma_kg_h_per_m_s, "kg/h")
    words = f"Rate for each m/s of wind at 10 m, by {method_name(unit.method)}; ± without the wind's error"
    added = [("plus, in any wind", digits.amount(unit.offset_kg_h, "kg/h", 2))] if unit.offset_kg_h else []
    return [(words, slope), *added]


def _rates(rates: Sequence[Rate]) -> str:
    rows = ""
    for rate in rates:
        name = f"{method_name(rate.method)}, {digits.amount(rate.wind.speed_m_s, 'm/s', 2)} ({rate.wind.source})"
        found = digits.with_sigma(rate.kg_h, rate.sigma_kg_h, "kg/h")
        found += "".join(f"; {note}" for note in rate.all_notes)
        rows += f'<tr><th scope="row">{escape(name)}</th><td>{escape(found)}</td></tr>'
    return f'<h3 class="sub">By every method and wind</h3><table class="numbers">{rows}</table>'


def _spectrum(check: SpectralCheck | None) -> str:
    if check is None:
        return "<p>Its spectrum was not checked.</p>"
    nm = check.centres_nm
    seen = line_plot(
        nm,
        [Line(check.outside, "outside", "similar ground outside"), Line(check.inside, "inside", "inside the plume")],
        "wavelength (nm)",
        "radiance (µW cm⁻² nm⁻¹ sr⁻¹)",
        "Mean radiance inside the plume and of similar ground outside it, by wavelength",
    )
    measured, fitted, without = (np.exp(curve) for curve in (check.log_ratio, check.fitted, check.without_methane))
    ratio = line_plot(
        nm,
        [
            Line(measured, "measured", "measured", dots=True),
            Line(without, "without", "fit without methane"),
            Line(fitted, "fitted", "fit with methane"),
        ],
        "wavelength (nm)",
        "inside / outside",
        "Ratio of the two spectra, with the fitted ground and methane drawn over it",
        between=(without, fitted, "taken by methane"),
    )
    return f"{seen}{ratio}<p>{escape(_verdict(check))}</p>"


def _verdict(check: SpectralCheck) -> str:
    found = digits.with_sigma(check.alpha_ppm_m, check.sigma_ppm_m, "ppm m")
    least = 1.0 / (1 + check.moves)
    often = (
        f"none of {check.moves} places without a plume shows as much"
        if check.p_value <= least * (1 + 1e-9)
        else f"of {check.moves} places without a plume, {round(check.p_value * (1 + check.moves)) - 1} show as much"
    )
    return (
        f"Methane fitted to the ratio of {check.pairs} pairs of pixels: {found}; {often} "
        f"({digits.chance(check.p_value, check.moves)})."
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _compass(degrees: float) -> str:
    names = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
    return names[round(degrees / 45.0) % 8].replace("-", "\u2011")  # a hyphen that does not break
