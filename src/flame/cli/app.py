"""Assembles the `flame` command and turns mistakes into one clear line."""

from __future__ import annotations

import sys
from importlib import import_module

import typer
from rich.console import Console

from flame import __version__
from flame.errors import FlameError

__all__ = ["app", "main"]

COMMANDS = (
    "info",
    "spectrum",
    "filter",
    "simulate",
    "train",
    "evaluate",
    "export",
    "bench",
    "detect",
    "demo",
    "profile",
)
"""Each is a module of `flame.cli` with a function `run`; its docstring is the command's help."""

EXIT_MISTAKE = 1
EXIT_PARTLY_FAILED = 3

app = typer.Typer(
    name="flame",
    help="Finds methane plumes in imaging-spectrometer data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(value: bool | None) -> None:
    if value:
        typer.echo(f"flame {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: bool | None = typer.Option(
        None, "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Finds methane plumes in imaging-spectrometer data."""


for _name in COMMANDS:
    app.command(_name)(import_module(f"flame.cli.{_name}").run)


def main() -> None:
    """Entry point: a user's mistake ends with one line and exit code 1, never a traceback."""
    try:
        app()
    except (FlameError, OSError) as mistake:
        Console(stderr=True).print(f"[bold red]error:[/] {mistake}", highlight=False, markup=True)
        sys.exit(EXIT_MISTAKE)
