"""The frame of a page that needs nothing else: style and script inside, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flame.files import whole_file

__all__ = ["data_uri", "file_link", "table", "write_page"]


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return (files("flame.products") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _policy(style: str, script: str | None) -> str:
    """Pictures from inside the page, this very style, this very script, and nothing from anywhere."""
    rules = [
        "default-src 'none'",
        "img-src data:",
        f"style-src {_hash(style)}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if script is not None:
        rules.append(f"script-src {_hash(script)}")
    return "; ".join(rules)


def write_page(path: Path, title: str, body: Iterable[str], data: Mapping[str, Any] | None = None) -> None:
    """Writes a page piece by piece under a temporary name and renames it.

    Args:
        path: The file.
        title: Plain text.
        body: Markup between `<body>` and `</body>`; whatever came from a file is escaped in it already.
        data: What the viewer's script needs; without it the page has no script.
    """
    style, script = _asset("style.css"), _asset("viewer.js") if data is not None else None
    with whole_file(path) as partial, partial.open("w", encoding="utf-8", errors="backslashreplace") as page:
        page.write(
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_policy(style, script), quote=True)}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="referrer" content="no-referrer">'
            f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n<body>\n"
        )
        for part in body:
            page.write(part)
        if script is not None:
            # Inside a script element only `<` could end it; JSON may write any letter by its number.
            facts = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
            page.write(f'<script type="application/json" id="scene">{facts}</script>\n<script>{script}</script>\n')
        page.write("</body></html>\n")


def data_uri(content: bytes, media: str) -> str:
    """A picture as an address that is the picture itself."""
    return f"data:{media};base64,{base64.b64encode(content).decode()}"


def file_link(href: str, text: str) -> str:
    """A link to a file beside the page, whatever its name is."""
    path = quote(href.encode("utf-8", "surrogateescape"), safe="/")
    return f'<a href="./{escape(path, quote=True)}">{escape(text)}</a>'


def table(head: Iterable[tuple[str, bool]], rows: Iterable[Iterable[str]]) -> str:
    """A table.

    Args:
        head: Name of each column, and whether it holds numbers.
        rows: Markup of each cell, escaped already.
    """
    columns = list(head)
    kinds = [' class="n"' if number else "" for _, number in columns]
    top = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for (name, _), kind in zip(columns, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="table"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
