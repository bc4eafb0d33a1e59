"""Building wheels: the compiler that is missing is named, and what is cross-compiled needs no new system."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "build_wheels.py"))
CROSS = "aarch64-linux-gnu-gcc"


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(SystemExit, match="apt-get install gcc-aarch64-linux-gnu"):
        TOOL["compiler_for"]("aarch64")
    with pytest.raises(SystemExit, match=r"no compiler cc; .* install gcc$"):
        TOOL["compiler_for"]("x86_64")


@pytest.mark.skipif(shutil.which(CROSS) is None, reason=f"kernels not compiled for aarch64: no {CROSS}")
def test_kernels_for_aarch64_need_no_new_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CC", CROSS), ("FLAME_MACHINE", "aarch64"), ("FLAME_OLDEST_GLIBC", "1")):
        monkeypatch.setenv(name, value)
    library = tmp_path / "kernels.so"
    runpy.run_path(str(ROOT / "hatch_build.py"))["compile_kernels"](ROOT / "src" / "flame" / "kernels", library)
    told = subprocess.run(
        ["aarch64-linux-gnu-objdump", "-p", library], capture_output=True, text=True, check=True
    ).stdout
    assert "aarch64" in told
    assert set(re.findall(r"NEEDED\s+(\S+)", told)) == {"libpthread.so.0", "libc.so.6"}
    assert set(re.findall(r"GLIBC_[\d.]+", told)) == {"GLIBC_2.17"}
