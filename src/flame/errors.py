"""The one base class of every error that a user can do something about."""

from __future__ import annotations

__all__ = ["FlameError"]


class FlameError(ValueError):
    """Bad input: the message names what is wrong, where, and what to do. The command line prints it without a trace."""
