"""`flame spectrum`: the unit absorption spectrum for a sensor."""

from __future__ import annotations


def run() -> None:
    """Placeholder body, replaced below."""
