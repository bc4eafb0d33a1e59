"""Compiles the flight kernels while the package is built, once for each instruction set, if there is a C compiler.

Without a compiler the package is built all the same: it then runs its models on onnxruntime or OpenVINO, as it does on
a processor that the kernels were not compiled for.
"""

from __future__ import annotations

import os
import platform
import runpy
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

FOLDER = Path("src/flame/kernels")
LIBRARY = "kernels.so"
FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-pthread"]
MACHINE = "FLAME_MACHINE"
"""Environment variable that names the processor to compile for, if not this one: `aarch64`, with a compiler in CC."""
OLDEST = "FLAME_OLDEST_GLIBC"
"""Environment variable that asks for a library that runs on older systems than the one it is linked on, for wheels."""
OLD_FLAGS = ["-DOLDEST_GLIBC"]
OLD_LIBRARIES = ["-Wl,--push-state,--no-as-needed", "-l:libpthread.so.0", "-Wl,--pop-state"]
"""Before glibc 2.34 threads were in a library of their own; since then it is empty, and still there."""
X86_SETS = {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx512f", "-mavx512dq", "-mfma", "-mprefer-vector-width=512"],
}


class CompilerError(Exception):
    """A compiler that is not there or that failed, with its own words."""


def compile_kernels(folder: Path, library: Path) -> None:
    """Compiles every C file of `folder` for every instruction set into one library.

    Raises:
        CompilerError: If there is no compiler, or it fails.
    """
    compiler = os.environ.get("CC") or next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), "cc")
    sets = {"baseline": ["-DBASELINE"]}
    if _machine() in ("x86_64", "amd64"):
        sets |= X86_SETS
    old = bool(os.environ.get(OLDEST))
    sources = runpy.run_path(str(folder / "sources.py"))["checksum"](folder)
    with TemporaryDirectory() as scratch:
        objects = []
        for (name, flags), source in product(sets.items(), sorted(folder.glob("*.c"))):
            objects.append(Path(scratch) / f"{source.stem}_{name}.o")
            given = [*FLAGS, *flags, *(OLD_FLAGS if old else []), f"-DSUFFIX=_{name}", f'-DSOURCES="{sources}"']
            _run([*compiler.split(), *given, "-c", str(source), "-o", str(objects[-1])])
        linked = Path(scratch) / library.name
        libraries = OLD_LIBRARIES if old else []
        _run([*compiler.split(), "-shared", "-pthread", *map(str, objects), *libraries, "-o", str(linked)])
        shutil.copyfile(linked, library.with_suffix(".new"))
    library.with_suffix(".new").replace(library)


def _machine() -> str:
    """The processor that is compiled for."""
    return (os.environ.get(MACHINE) or platform.machine()).lower()


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as failure:
        raise CompilerError(f"cannot run {command[0]}: {failure.strerror}") from failure
    if done.returncode:
        raise CompilerError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr or done.stdout}")


def _platform_tag() -> str:
    """The platform this is built for, such as linux_x86_64; `make wheels` finds what else it runs on."""
    if os.environ.get(MACHINE):
        return f"linux_{_machine()}"
    return next(t.platform for t in sys_tags() if not t.platform.startswith(("manylinux", "musllinux")))


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for wheels and for editable installs, where the library is left beside its source."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles and adds the library to what is packed."""
        if self.target_name != "wheel":
            return
        folder = Path(self.root) / FOLDER
        self._scratch = TemporaryDirectory()
        # That of a wheel may be for another processor: the one beside the source stays as it is.
        library = (folder if version == "editable" else Path(self._scratch.name)) / LIBRARY
        try:
            compile_kernels(folder, library)
        except CompilerError as failure:
            print(f"flame: built without native kernels: {failure}", file=sys.stderr)
            return
        build_data["force_include"][str(library)] = f"{FOLDER.relative_to('src')}/{LIBRARY}"
        build_data["pure_python"] = False
        # The library is called through ctypes: it depends on the platform, not on Python's version or ABI.
        build_data["tag"] = f"py3-none-{_platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Removes what was compiled for a wheel."""
        if self.target_name == "wheel":
            self._scratch.cleanup()
