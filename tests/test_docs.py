"""README and docs: links lead somewhere, the README's example runs, every page is in the menu."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_readme_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["enhancement_ppm_m"].shape == names["scene"].shape


def test_every_page_is_in_the_menu():
    menu = re.findall(r"(\w+\.md)", (ROOT / "mkdocs.yml").read_text())
    assert sorted(menu) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_readme_names_every_command():
    from flame.cli.app import COMMANDS

    readme = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"`flame {name}" not in readme] == []
