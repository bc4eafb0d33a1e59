"""The page over a batch: every input with what became of it, and the strongest plumes of all."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from flame.physics.wind import CALM_M_S
from flame.products import digits
from flame.products.html_page import file_link, table, write_page

__all__ = ["IndexEntry", "write_index_page"]

_STRONGEST = 50


@dataclass(frozen=True)
class IndexEntry:
    """One input.

    Attributes:
        title: Its name.
        page: Its page, relative to the index; None if there is none.
        facts: What its record says.
        plumes: Properties of its plumes, strongest first.
        failure: Why there is nothing, for an input that failed.
    """

    title: str
    page: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    plumes: Sequence[Mapping[str, Any]] = ()
    failure: str | None = None


def write_index_page(
    path: Path, title: str, summary: str, entries: Iterable[IndexEntry], files: Mapping[str, str], software: str
) -> None:
    """Writes the page under a temporary name and renames it; one input is held at a time.

    Args:
        path: The file.
        title: Headline.
        summary: A sentence under it.
        entries: The inputs.
        files: Files over the whole batch, and what each is.
        software: What made them.
    """
    write_page(path, title, _body(title, summary, entries, files, software))


def _body(
    title: str, summary: str, entries: Iterable[IndexEntry], files: Mapping[str, str], software: str
) -> Iterator[str]:
    yield (
        '<header class="top"><p class="brand">FLAME methane report</p>'
        f'<h1>{escape(title)}</h1><p class="subject">{escape(summary)}</p></header><main><h2>Scenes</h2>'
    )
    head = (
        ("scene", False),
        ("taken", False),
        ("sensor", False),
        ("judged", True),
        ("plumes", True),
        ("strongest", True),
    )
    begin, end = table(head, []).split("</tbody>")
    yield begin
    strongest: list[tuple[float, int, str | None, Mapping[str, Any]]] = []
    for number, entry in enumerate(entries):
        yield _row(entry)
        for at, plume in enumerate(entry.plumes[:_STRONGEST]):
            # Numbers make ties fall to the earlier input.
            found = (_strength(plume), -(number * _STRONGEST + at), entry.page, plume)
            (heapq.heappush if len(strongest) < _STRONGEST else heapq.heappushpop)(strongest, found)
    yield f"</tbody>{end}"
    if strongest:
        yield "<h2>Strongest plumes</h2>"
        columns = (
            ("plume", False),
            ("rate", True),
            ("methane in it", True),
            ("peak", True),
            ("begins at", False),
            ("spectrum", False),
        )
        yield table(columns, (_plume(*found[2:]) for found in sorted(strongest, key=lambda one: one[:2], reverse=True)))
    if files:
        links = "".join(
            f"<li>{file_link(name, name)}<span>{escape(about)}</span></li>" for name, about in files.items()
        )
        yield f'<h2>Files over all scenes</h2><ul class="files">{links}</ul>'
    yield (
        f"</main><footer><p>Made by {escape(software)}. A ± is one standard deviation. Enhancements are in ppm m "
        "as the light's path shows them; masses are above the plume's surroundings, the light's path taken out.</p>"
        "</footer>"
    )


def _row(entry: IndexEntry) -> str:
    name = file_link(entry.page, entry.title) if entry.page else escape(entry.title)
    if entry.failure is not None:
        return f'<tr><td>{name}</td><td colspan="5" class="failed">{escape(entry.failure)}</td></tr>'
    facts = entry.facts
    judged = digits.share(facts["usable_pixels"], facts["rows"] * facts["columns"])
    strongest = _rate(entry.plumes[0]) if entry.plumes else "none"
    cells = (
        escape(str(facts["time"] or "not stated").replace("T", " ").replace("+00:00", " UTC")),
        escape(str(facts["sensor"] or "not stated")),
    )
    numbers = judged, f"{len(entry.plumes):,}", strongest
    plain, right = (
        "".join(f"<td>{cell}</td>" for cell in cells),
        "".join(f'<td class="n">{cell}</td>' for cell in numbers),
    )
    return f"<tr><td>{name}</td>{plain}{right}</tr>"


def _strength(plume: Mapping[str, Any]) -> float:
    """Plumes are ordered by rate, then by what there is instead."""
    for name, rank in (("rate_kg_h", 1e12), ("mass_kg", 1e6), ("integrated_ppm_m_px", 1e-12)):
        value = plume.get(name)
        if isinstance(value, int | float):
            return float(value) * rank
    return 0.0


def _rate(plume: Mapping[str, Any]) -> str:
    if plume.get("rate_kg_h") is not None:
        return _kg_h(plume)
    if plume.get("mass_kg") is not None:
        return escape(digits.with_sigma(plume["mass_kg"], plume.get("mass_sigma_kg"), "kg"))
    return escape(digits.amount(plume.get("peak_ppm_m"), "ppm m"))


def _kg_h(plume: Mapping[str, Any]) -> str:
    """The rate, and whether it is of a calm."""
    wind = plume.get("wind_m_s")
    calm = ", nearly calm" if wind is not None and wind < CALM_M_S else ""
    return escape(digits.with_sigma(plume.get("rate_kg_h"), plume.get("rate_sigma_kg_h"), "kg/h") + calm)


def _plume(page: str | None, plume: Mapping[str, Any]) -> list[str]:
    name = str(plume.get("plume_id", plume.get("plume", "")))
    place = digits.place(plume.get("source_longitude"), plume.get("source_latitude"))
    p_value = plume.get("spectral_p_value")
    return [
        file_link(page, name) if page else escape(name),
        _kg_h(plume),
        escape(digits.with_sigma(plume.get("mass_kg"), plume.get("mass_sigma_kg"), "kg")),
        escape(digits.amount(plume.get("peak_ppm_m"), "ppm m")),
        escape(place),
        "not checked" if p_value is None else escape(f"p = {digits.amount(p_value, figures=2)}"),
    ]
