"""Mixed precision where it helps, and processors that would die of it.

Some virtual machines show a processor that names AMX but forbid its use. The first bfloat16 product that oneDNN gives
to AMX then ends the process by SIGILL, without a word. So the product is tried in a child process first; where that
dies, oneDNN is kept from AMX. The training loop itself uses bfloat16 on GPUs only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["autocast", "shield_from_amx"]

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
"""oneDNN reads it at its first use in a process."""

WITHOUT_AMX = "AVX512_CORE_BF16"

_PRODUCT = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); print(float((a @ a).sum()))"
_PATIENCE_S = 120.0


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 on GPUs; full precision on CPUs, where some machines would die of it and few are faster."""
    import torch

    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()


@cache
def shield_from_amx() -> bool:
    """Makes bfloat16 safe on this machine's CPU, if it can; to be called before torch computes anything.

    Costs nothing on processors without AMX, elsewhere the start of one child process; later calls nothing.

    Returns:
        Whether bfloat16 on the CPU can be used now.
    """
    if not _names_amx() or _survives(_PRODUCT):
        return True
    if ISA_VARIABLE in os.environ:
        return False
    os.environ[ISA_VARIABLE] = WITHOUT_AMX
    return _survives(_PRODUCT)


def _names_amx(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor claims AMX; only Linux tells, and only x86 has it."""
    return cpuinfo.is_file() and "amx" in cpuinfo.read_text(encoding="ascii", errors="replace")


def _survives(program: str) -> bool:
    """Whether a Python program ends well in a process of its own; one that hangs does not."""
    try:
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == 0
