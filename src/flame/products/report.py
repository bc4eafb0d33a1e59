"""One HTML page that needs nothing else: pictures inside, tables, what was run, what failed."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from flame.files import whole_file

__all__ = ["ReportSection", "write_report"]

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2430; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #d5dbe3; }
img { max-width: 100%; height: auto; } table { border-collapse: collapse; margin: .8rem 0; font-size: 14px; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e3e8ee; }
th { color: #56616f; font-weight: 600; } td:first-child, th:first-child { text-align: left; }
.failed { color: #a3231f; } .note { color: #56616f; font-size: 13px; } .scroll { overflow-x: auto; }
</style></head><body>
"""


@dataclass(frozen=True)
class ReportSection:
    """One scene of the report.

    Attributes:
        title: Headline, usually the file.
        facts: Short facts by name.
        picture: A PNG to put in.
        rows: A table, one mapping per row, all with the same keys.
        failure: Why there is nothing, for a scene that failed.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    picture: Path | None = None
    rows: Sequence[Mapping[str, Any]] = ()
    failure: str | None = None

    def html(self) -> str:
        """The section's markup."""
        parts = [f"<h2>{escape(self.title)}</h2>"]
        if self.failure is not None:
            return parts[0] + f'<p class="failed">{escape(self.failure)}</p>'
        if self.facts:
            parts.append(_table([self.facts]))
        if self.picture is not None:
            parts.append(self._image(self.picture))
        parts.append(_table(self.rows) if self.rows else "<p>No plume found.</p>")
        return "\n".join(parts)

    def _image(self, picture: Path) -> str:
        try:
            data = base64.b64encode(picture.read_bytes() if picture.is_file() else b"").decode()
        except OSError:
            data = ""
        if not data:  # a lost picture is no reason to lose the page
            return '<p class="failed">The quick look cannot be read.</p>'
        return f'<img alt="quick look of {escape(self.title)}" src="data:image/png;base64,{data}">'


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in row.values()) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def write_report(path: Path, title: str, summary: str, sections: Iterable[ReportSection], footer: str = "") -> None:
    """Writes the page under a temporary name and renames it; all text is escaped, one section is held at a time."""
    with whole_file(path) as partial, partial.open("w", encoding="utf-8", errors="backslashreplace") as page:
        page.write(_HEAD.replace("{title}", escape(title)))
        page.write(f"<h1>{escape(title)}</h1>\n<p>{escape(summary)}</p>\n")
        for section in sections:
            page.write(section.html() + "\n")
        page.write(f'<p class="note">{escape(footer)}</p>\n</body></html>\n')
