"""Assembles the `flame` command and turns mistakes into one clear line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise

import typer
from rich.console import Console
from rich.text import Text

from flame import __version__
from flame.errors import FlameError
from flame.files import printable

__all__ = ["app", "main", "print_error"]

PANELS = {
    "Find methane": ("info", "detect", "watch", "filter", "spectrum", "demo"),
    "Make and measure models": ("simulate", "train", "evaluate", "export", "bench", "profile"),
    "Fly": ("fly", "ground", "export-flight"),
}
"""Every command, under its heading in the help; each is a module of `flame.cli` with a function `run` or an `app`."""

COMMANDS = tuple(name for names in PANELS.values() for name in names)

EXIT_MISTAKE = 1
EXIT_PARTLY_FAILED = 3
EXIT_STOPPED = 130
"""As shells report a command that Ctrl-C ended."""

app = typer.Typer(
    name="flame",
    no_args_is_help=True,
    rich_markup_mode="markdown",
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
    """Find methane plumes in imaging-spectrometer data. `flame COMMAND --help` explains a command."""


for _panel, _name in ((panel, name) for panel, names in PANELS.items() for name in names):
    _module = import_module(f"flame.cli.{_name.replace('-', '_')}")
    if hasattr(_module, "app"):
        app.add_typer(_module.app, name=_name, rich_help_panel=_panel)
    else:
        app.command(_name, rich_help_panel=_panel)(_module.run)


def print_error(words: str) -> None:
    """Prints an error as it is: brackets are not markup, and no control character reaches the terminal."""
    text = Text.assemble(("error:", "bold red"), " ", "\n".join(map(printable, words.splitlines())))
    Console(stderr=True).print(text, soft_wrap=True)


def _refuse_empty(words: Sequence[str]) -> None:
    """An empty argument is a shell variable that is not set; as a path it would mean the current folder."""
    for before, word in pairwise(["flame", *words]):
        if not word or (word.startswith("--") and word.endswith("=")):
            named = word or before
            raise FlameError(f"nothing is given after {named}; is a shell variable empty? Write . for this folder")


def main() -> None:
    """Entry point: a user's mistake ends with one line and exit code 1, never a traceback."""
    try:
        _refuse_empty(sys.argv[1:])
        app()
    except (FlameError, OSError) as mistake:
        print_error(str(mistake))
        sys.exit(EXIT_MISTAKE)
