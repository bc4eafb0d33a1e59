"""The wheel, and what can be installed from it: the base without torch, and the flight install of docs/install.md."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built once, as `make wheels` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, REPOSITORY]
    subprocess.run(build, check=True, env=os.environ | {"FLAME_OLDEST_GLIBC": "1"})
    (path,) = folder.glob("*.whl")
    return path


def environment(folder: Path, *installs: str) -> Path:
    """Python of a fresh environment after some `pip install` commands.

    This environment's pip puts the packages there and leaves them uncompiled: half the time. No compiler is in the
    path.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    for install in installs:
        command, *arguments = shlex.split(install)
        assert (command, arguments[0]) == ("pip", "install")
        pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *arguments, "--no-compile"], check=True, env=os.environ | {"PATH": str(python.parent)})
    return python


@pytest.fixture(scope="module")
def base_python(wheel, tmp_path_factory):
    """Python of a fresh environment that holds `flame-methane` without extras."""
    return environment(tmp_path_factory.mktemp("base") / "venv", f"pip install {wheel}")


@pytest.fixture(scope="module")
def flight_python(wheel, tmp_path_factory):
    """Python of a fresh environment made by the commands that docs/install.md gives for a flight computer."""
    page = (REPOSITORY / "docs" / "install.md").read_text()
    (block,) = re.findall(r"## On a flight computer.*?```console\n(.*?)```", page, re.DOTALL)
    commands = [line.removeprefix("$ ").replace("flame-methane", str(wheel)) for line in block.splitlines()]
    return environment(tmp_path_factory.mktemp("flight") / "venv", *commands)


def answer(python, program, folder):
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_wheel_fits_every_python_3(wheel):
    """Its kernels are called through ctypes, so it depends on the platform alone."""
    python, abi, platform = wheel.stem.split("-")[-3:]
    assert (python, abi) == ("py3", "none")
    assert platform != "any", "built without kernels: is there a C compiler?"


@pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump to look into the library with")
def test_the_library_of_the_wheel_runs_on_systems_of_2012(wheel, tmp_path):
    """It needs no symbol newer than glibc 2.17, and no library but libc and that of the threads."""
    with zipfile.ZipFile(wheel) as content:
        library = content.extract("flame/kernels/kernels.so", tmp_path)
    told = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED\s+(\S+)", told)) == {"libpthread.so.0", "libc.so.6"}
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", told)}
    assert max(versions) <= (2, 17)


def test_detection_is_native_where_there_is_no_compiler(base_python, tmp_path):
    alone = {"PATH": str(base_python.parent), "HOME": str(tmp_path)}
    flame = base_python.parent / "flame"
    simulate = "simulate --out data --tiles 1 --size 64 --preset narrow --seed 3 --test-share 1"
    subprocess.run([flame, *simulate.split()], check=True, capture_output=True, cwd=tmp_path, env=alone)
    (scene,) = (tmp_path / "data").glob("sim_*")
    detect = [flame, "detect", scene, "--out", "found", "--runtime", "native"]
    done = subprocess.run(detect, capture_output=True, text=True, cwd=tmp_path, env=alone)
    assert done.returncode == 0, done.stderr
    told = "".join(path.read_text() for path in (tmp_path / "found").rglob("*.json"))
    assert "native (" in told + done.stdout


def test_flight_rooms_import_without_torch(base_python, tmp_path):
    program = (
        "import json, sys, flame.filters, flame.onboard, flame.detection, importlib.util\n"
        "heavy = ['torch', 'pandas', 'xarray', 'matplotlib']\n"
        "print(json.dumps({'loaded': [m for m in heavy if m in sys.modules],\n"
        "                  'torch_installed': importlib.util.find_spec('torch') is not None}))"
    )
    assert answer(base_python, program, tmp_path) == {"loaded": [], "torch_installed": False}


def test_the_command_runs_on_base_alone(base_python, tmp_path):
    command = [base_python.parent / "flame", "spectrum", "--sensor", "emit", "--csv", "s.csv", "--plot", "s.png"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / "s.csv").read_text().startswith("centre_nm,fwhm_nm,unit_absorption_per_1e5_ppm_m\n2122.")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_base_says_what_training_needs(base_python, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.safetensors").write_bytes(b"")
    for command in ("train --data d --out o", "evaluate --model run --data d --out o", "export run --out m.onnx"):
        done = subprocess.run(
            [base_python.parent / "flame", *command.split()], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 1
        assert done.stderr == f"error: `flame {command.split()[0]}` needs PyTorch: pip install 'flame-methane[train]'\n"


def test_a_flight_install_finds_a_plume_and_sends_it(flight_python, tmp_path):
    program = """
import importlib.util, json
import flame
from flame.onboard import Asked
from flame.onboard.downlink import decode_all, encode_plume

tile = flame.simulate_tile(seed=3, preset="narrow").tile
detector = flame.Detector(runtime="native")
scene, found = tile.scene, detector.run(tile.scene)
visible = flame.Detector(runtime="native", asked=Asked(level="visible"))
outlined, stream = visible.run(scene), visible.stream(width=scene.shape[1])
blocks = stream.push(scene.radiance, scene.rgb, scene.valid) + stream.close()
packets, lost = decode_all(b"".join(encode_plume(p, scene=1, number=n) for n, p in enumerate(found.plumes)))
absent = ["rasterio", "matplotlib", "typer", "rich", "onnxruntime", "h5py", "torch"]
print(json.dumps({
    "right_pixels": int((found.mask & tile.label).sum()),
    "same_by_lines": sorted(p.area_px for b in blocks for p in b.plumes) == sorted(p.area_px for p in outlined.plumes),
    "same_by_detect": bool((flame.detect(scene).mask == found.mask).all()),
    "packets": len(packets) == len(found.plumes) > 0,
    "filtered": flame.filter("mag1c", scene).shape,
    "absorbs": bool(flame.unit_absorption(scene.bands).min() < -0.1),
    "installed": [name for name in absent if importlib.util.find_spec(name)],
}))
"""
    told = answer(flight_python, program, tmp_path)
    assert told.pop("right_pixels") > 0
    assert told == {
        "same_by_lines": True,
        "same_by_detect": True,
        "packets": True,
        "filtered": [128, 128],
        "absorbs": True,
        "installed": [],
    }


def test_a_flight_install_says_that_it_has_no_command(flight_python, tmp_path):
    done = subprocess.run([flight_python.parent / "flame", "demo"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "error: the flame command needs typer, which this install leaves out: pip install flame-methane\n"
    )
