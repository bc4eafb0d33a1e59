"""`import flame`: cheap, complete, and every name does what its example says."""

import doctest
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flame
from flame import api

ROOT = Path(__file__).parents[1]
NAMES = [name for name in flame.__all__ if name != "__version__"]


def modules_after(program):
    """Which modules a fresh interpreter has loaded after a program."""
    program += "\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    return set(json.loads(told.splitlines()[-1]))


def test_import_loads_nothing():
    extra = modules_after("import flame") - modules_after("")
    assert {name for name in extra if name.startswith("flame")} == {"flame"}
    assert not extra & {"numpy", "scipy", "jaxtyping", "torch", "matplotlib", "rasterio", "h5py", "typer", "rich"}


@pytest.mark.parametrize("name", ["Detector", "detect", "filter", "Scene", "unit_absorption"])
def test_what_flies_loads_without_what_does_not(name):
    heavy = {"torch", "matplotlib", "rasterio", "h5py", "typer", "rich", "onnxruntime", "openvino", "pandas", "xarray"}
    assert not modules_after(f"import flame; flame.{name}") & heavy


def test_every_name_loads_and_is_listed():
    for name in NAMES:
        assert getattr(flame, name) is not None
    assert set(NAMES) <= set(dir(flame))
    assert set(flame._HOME_OF) == set(NAMES)
    with pytest.raises(AttributeError, match="module 'flame' has no attribute 'detekt'"):
        _ = flame.detekt


def test_type_checkers_are_told_the_same():
    source = inspect.getsource(flame)
    told = re.findall(r"^    from (\S+) import (.+)$", source, re.MULTILINE)
    assert {home: tuple(names.split(", ")) for home, names in told} == flame._HOMES


def test_every_name_is_documented():
    page = (ROOT / "docs" / "python.md").read_text()
    examples = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    for name in NAMES:
        assert inspect.getdoc(getattr(flame, name)), name
        assert f"flame.{name}" in examples, f"docs/python.md has no example of flame.{name}"


@pytest.mark.parametrize("name", api.__all__)
def test_the_example_in_the_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    (example,) = finder.find(getattr(api, name), name, globs={})
    assert example.examples
    assert runner.run(example).failed == 0


def test_a_file_and_its_scene_give_the_same_detection(tmp_path):
    tile = flame.simulate_tile(seed=3, size=64, preset="narrow").tile
    scene = tile.scene
    np.savez(
        tmp_path / "chip.npz",
        radiance=np.concatenate([scene.radiance, scene.rgb]),
        wavelength_nm=np.append(scene.bands.centres_nm, [640, 550, 460]),
        fwhm_nm=np.append(scene.bands.fwhm_nm, [5.8] * 3),
        valid=scene.valid,
        unit="uW cm-2 nm-1 sr-1",
    )
    from_file, from_scene = flame.detect(tmp_path / "chip.npz"), flame.detect(scene)
    np.testing.assert_array_equal(from_file.mask, from_scene.mask)
    np.testing.assert_array_equal(flame.filter("mf", tmp_path / "chip.npz"), flame.filter("mf", scene))
    own = flame.Detector().run(scene)
    np.testing.assert_array_equal(own.probability, from_scene.probability)


def test_simulated_tiles_are_those_of_a_data_set():
    from flame.pipeline.datasets import SimulationPlan

    plan = SimulationPlan(tiles=3, seed=5, size=32, sensor="emit")
    mine, theirs = flame.simulate_tile(5, index=2, size=32, sensor="emit"), plan.draw(2)
    assert mine.tile.name == theirs.tile.name
    np.testing.assert_array_equal(mine.tile.scene.radiance, theirs.tile.scene.radiance)


def test_a_type_checker_sees_types_and_misspelt_names(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import flame\nreveal_type(flame.detect('x'))\nflame.detekt\n")
    command = [sys.executable, "-m", "mypy", program]
    environment = {**os.environ, "MYPYPATH": str(Path(flame.__file__).parents[1])}
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment).stdout
    assert 'Revealed type is "flame.onboard.detector.Detection"' in told
    assert 'Module has no attribute "detekt"' in told
