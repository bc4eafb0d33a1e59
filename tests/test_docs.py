"""README and docs: every example runs as it stands, links lead somewhere, every page is in the menu.

A fenced block marked `python` or `console` is run, page by page, in an empty folder, in the order of the page. A `text`
block right after a `python` block is what it prints, and lines below a `$ command` what that prints; `...` stands for
anything.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

import flame

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md", *sorted(ROOT.glob("docs/*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "console", "text"}
RUN_ELSEWHERE = {
    "pip": "tests/test_base_install.py installs",
    "make": "`make test` runs this very test, `make demo` is `flame demo`",
    "flame --install-completion": "changes the user's shell; tests/cli/test_early_checks.py completes",
}
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


@dataclass(frozen=True)
class Example:
    """One thing to run, and what it should print; None if the page does not say."""

    language: str
    source: str
    printed: str | None


def examples(page: Path) -> list[Example]:
    """The examples of a page, in order; a console block is split into its commands."""
    text = page.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(text))
    found = []
    for block, following in zip_longest(blocks, blocks[1:]):
        language, content = block.groups()
        if language == "python":
            adjacent = following is not None and not text[block.end() : following.start()].strip()
            printed = following[2] if adjacent and following[1] == "text" else None
            found.append(Example(language, content, printed))
        elif language == "console":
            for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                command, _, printed = part.partition("\n")
                found.append(Example(language, command, printed or None))
    return found


def run(example: Example, names: dict[str, object], page: str) -> str:
    """Runs an example in the working folder and returns what it printed."""
    if example.language == "python":
        with contextlib.redirect_stdout(io.StringIO()) as told:
            exec(compile(example.source, page, "exec"), names)
        return told.getvalue()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "200", "PYTHONPATH": str(Path(flame.__file__).parents[1])}
    done = subprocess.run(example.source, shell=True, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{page}: {example.source}\n{done.stdout}{done.stderr}"
    return done.stdout


def runs_elsewhere(example: Example) -> bool:
    return example.language == "console" and any(
        example.source == known or example.source.startswith(f"{known} ") for known in RUN_ELSEWHERE
    )


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.name)
def test_examples_run_as_they_stand(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    checker = doctest.OutputChecker()
    for example in examples(page):
        if runs_elsewhere(example):
            continue
        told = run(example, names, page.name)
        if example.printed is not None:
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert checker.check_output(example.printed, told, options), (
                f"{page.name} says\n{example.printed}\nbut it printed\n{told}"
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_code_is_marked_as_what_it_is(page):
    text = page.read_text(encoding="utf-8")
    assert {block[1] for block in FENCE.finditer(text)} <= LANGUAGES
    outside = FENCE.sub("", text)
    assert not re.findall(r"^ {4}(?:flame|python|\$) .*", outside, re.MULTILINE), "an example in no fenced block"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_commands_named_in_the_text_exist(page):
    """Commands and options between backticks are ones there are, and so are scripts and modules."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for code in INLINE.findall(text):
        words = " ".join(code.split()).split(" ")
        if words[0] == "flame" and len(words) > 1:
            known = options_of(words[1:])
            unknown = [word for word in words if word.startswith("--") and word not in known]
            assert not unknown, f"{page.name}: `{code}` has no option {unknown}"
        elif words[0] == "python" and words[1].endswith(".py"):
            assert (ROOT / words[1]).is_file(), f"{page.name}: `{code}`"


def options_of(words: list[str]) -> set[str]:
    """The options of the command that these words begin with."""
    import typer

    from flame.cli.app import app

    command = typer.main.get_command(app)
    for word in words:
        if word.startswith("-") or not hasattr(command, "commands"):
            break
        if word in ("COMMAND", "NAME") or not re.fullmatch(r"[a-z][a-z-]*", word):
            return {"--help"}
        assert word in command.commands, f"there is no command `flame {' '.join(words)}`"
        command = command.commands[word]
    return {"--help"} | {name for entry in command.params for name in (*entry.opts, *entry.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_page_is_in_the_menu():
    menu = re.findall(r"([\w-]+\.md)", (ROOT / "mkdocs.yml").read_text())
    assert sorted(menu) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md"])
def test_every_command_is_named(page):
    from flame.cli.app import COMMANDS

    text = (ROOT / page).read_text()
    assert [name for name in COMMANDS if f"`flame {name}" not in text] == []


def test_the_site_builds_strictly(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, shlex.join(map(str, command)) + "\n" + done.stdout + done.stderr
    page = (tmp_path / "site" / "api" / "index.html").read_text()
    for name in flame.__all__:
        if name != "__version__":
            assert f'id="flame.{name}"' in page, f"the page of all names lacks flame.{name}"
