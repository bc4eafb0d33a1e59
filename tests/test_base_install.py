"""The base install, in an environment of its own, flies without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def base_python(tmp_path_factory):
    """Python of a fresh environment that holds `flame-methane` without extras.

    The environment's packages are put there by this one's pip and not compiled to bytecode: half the time.
    """
    environment = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-compile", REPOSITORY], check=True)
    return python


def test_flight_rooms_import_without_torch(base_python, tmp_path):
    program = (
        "import json, sys, flame.filters, flame.onboard, flame.detection, importlib.util\n"
        "heavy = ['torch', 'pandas', 'xarray', 'matplotlib']\n"
        "print(json.dumps({'loaded': [m for m in heavy if m in sys.modules],\n"
        "                  'torch_installed': importlib.util.find_spec('torch') is not None}))"
    )
    answer = subprocess.run([base_python, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert json.loads(answer.stdout) == {"loaded": [], "torch_installed": False}


def test_the_command_runs_on_base_alone(base_python, tmp_path):
    command = [base_python.parent / "flame", "spectrum", "--sensor", "emit", "--csv", "s.csv", "--plot", "s.png"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert (tmp_path / "s.csv").read_text().startswith("centre_nm,fwhm_nm,unit_absorption_per_1e5_ppm_m\n2122.")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
