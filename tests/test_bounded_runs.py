"""`make test` ends in bounded time, with a failure, when a test kills its worker or never ends."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
HEALTHY = "import pytest\n\n@pytest.mark.parametrize('n', range(4))\ndef test_fine(n):\n    pass\n"
KILLS_ITSELF = (
    "import os, signal\n\ndef test_dies():\n    os.kill(os.getpid(), signal.SIGILL)\n\ndef test_after():\n    pass\n"
)
HANGS = "import time\n\ndef test_hangs():\n    time.sleep(3600)\n"


def options_of_make():
    (options,) = re.findall(r"^PYTEST_OPTIONS := (.*)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    return options.split()


def run(folder, *more):
    """pytest as `make test` runs it, with the project's own settings, on other tests."""
    settings = ["-c", str(REPOSITORY / "pyproject.toml"), "--rootdir", str(folder), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options_of_make(), *settings, *more, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("program", "more", "guilty"),
    [(KILLS_ITSELF, (), "test_dies"), (HANGS, ("-o", "timeout=3"), "test_hangs")],
    ids=["a worker dies by SIGILL", "a test never ends"],
)
def test_a_lost_worker_ends_the_run_with_a_failure(tmp_path, program, more, guilty):
    (tmp_path / "test_healthy.py").write_text(HEALTHY)
    (tmp_path / "test_guilty.py").write_text(program)
    ended = run(tmp_path, *more)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert re.search(rf"crashed while running '[^']*{guilty}", ended.stdout)
    assert "4 passed" in ended.stdout, "the other worker's tests are still counted"


def test_the_settings_bound_every_test(pytestconfig):
    assert 0 < float(pytestconfig.getini("timeout")) <= 900
    assert pytestconfig.getini("timeout_method") == "thread", "a signal does not reach a test that hangs in C"
