"""The `flame` command: one thin file a command."""

from __future__ import annotations

from flame.cli.app import main

__all__ = ["main"]
