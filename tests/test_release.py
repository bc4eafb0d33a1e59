"""Version, changelog and citation say the same, and the metadata names what is there."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import flame

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_has_a_date_in_the_changelog():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    version, _, date = headings[1].partition(" - ")
    assert version == flame.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == flame.__version__
    assert citation["license"] == PROJECT["license"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {citation['version']} - {citation['date-released']}" in changelog


AWAITED = {"h5py"}
IMPORTED_AS = {"pillow": "PIL"}
"""Declared for readers of HDF5 and netCDF files."""


@pytest.mark.parametrize("extra", [None, "train", "openvino"])
def test_what_is_installed_is_used(extra):
    needs = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for need in needs:
        name = re.match(r"[\w-]+", need)[0]
        module = IMPORTED_AS.get(name, name.replace("-", "_"))
        used = re.search(rf"^\s*(?:import|from) {module}\b", source, re.MULTILINE)
        assert used or name in AWAITED, f"nothing imports {name}"
