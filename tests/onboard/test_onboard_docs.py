"""The examples of docs/onboard.md and docs/downlink.md run as they stand."""

import re
from pathlib import Path

import numpy as np
import pytest

from flame.onboard import Quality, write_package
from flame.onboard.manifest import Manifest
from flame.prepare import FIELDS, INPUTS, PrepareSettings
from tiny_models import CENTRES_NM, plume_scene, whitening_model

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "count", "told"), [("onboard", 3, "row 11, column 11: 32 pixels"), ("downlink", 1, "bytes, 1 plumes")]
)
def test_examples_run(page, count, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = whitening_model()
    write_package(model, Path("model.onnx"))
    scene, _ = plume_scene(70, 60, [(8, 8, 14, 14)])
    np.savez("scene.npz", radiance=scene.radiance, wavelength_nm=np.array(CENTRES_NM), fwhm_nm=np.full(4, 6.0))
    examples = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == count
    names = {}
    for example in examples:
        exec(compile(example, page, "exec"), names)
    assert told in capsys.readouterr().out


def test_every_entry_flag_and_input_is_explained():
    page = (DOCS / "onboard.md").read_text(encoding="utf-8")
    named = (*Manifest.__dataclass_fields__, *INPUTS, *FIELDS, "checksum")
    inside = {f"{name}.{inner}" for name in ("pixels",) for inner in vars(getattr(PrepareSettings(), name))}
    for name in (*named, *inside, *(set(PrepareSettings.__dataclass_fields__) - {"pixels"})):
        assert f"`{name}`" in page, name
    for flag in Quality:
        assert f"| {flag.value} | {flag.name} |" in page
