"""docs/onboard.md explains every entry of the manifest, every flag and every input."""

from pathlib import Path

from flame.onboard import Quality
from flame.onboard.manifest import Manifest
from flame.prepare import FIELDS, INPUTS, PrepareSettings

DOCS = Path(__file__).parents[2] / "docs"


def test_every_entry_flag_and_input_is_explained():
    page = (DOCS / "onboard.md").read_text(encoding="utf-8")
    named = (*Manifest.__dataclass_fields__, *INPUTS, *FIELDS, "checksum")
    inside = {f"{name}.{inner}" for name in ("pixels",) for inner in vars(getattr(PrepareSettings(), name))}
    for name in (*named, *inside, *(set(PrepareSettings.__dataclass_fields__) - {"pixels"})):
        assert f"`{name}`" in page, name
    for flag in Quality:
        assert f"| {flag.value} | {flag.name} |" in page
