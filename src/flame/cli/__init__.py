"""The `flame` command: one thin file per command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point; a flight install, which has no command line, says so in one line."""
    try:
        from flame.cli import app
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "flame":
            raise
        sys.exit(
            f"error: the flame command needs {missing.name}, which this install leaves out: pip install flame-methane"
        )
    app.main()
