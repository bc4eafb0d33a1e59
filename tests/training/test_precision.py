"""A processor that forbids what it names: found out in a child process, and kept from harm."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
import torch

from flame.training import precision
from flame.training.precision import ISA_VARIABLE, WITHOUT_AMX, autocast, shield_from_amx

DIES = f"import os, signal; os.kill(os.getpid(), {int(signal.SIGILL)})"
DIES_WITHOUT_CAP = f"import os, signal\nif os.environ.get('{ISA_VARIABLE}') != '{WITHOUT_AMX}':\n os.abort()"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Each test starts as a new process would, and leaves none of its capping behind."""
    monkeypatch.setenv(ISA_VARIABLE, "set so that it is put back")
    monkeypatch.delenv(ISA_VARIABLE)
    shield_from_amx.cache_clear()
    yield
    shield_from_amx.cache_clear()


def machine(monkeypatch, program, amx=True):
    """A machine on which the bfloat16 product does what the program does; counts how often it was tried."""
    tried = []
    monkeypatch.setattr(precision, "_names_amx", lambda: amx)
    monkeypatch.setattr(precision, "_PRODUCT", program)
    real = precision._survives
    monkeypatch.setattr(precision, "_survives", lambda text: tried.append(text) or real(text))
    return tried


def test_a_child_killed_by_sigill_is_survived_and_bfloat16_called_unusable(monkeypatch):
    tried = machine(monkeypatch, DIES)
    assert not shield_from_amx()
    assert not shield_from_amx()
    assert len(tried) == 2, "once as it is, once capped, and never again"


def test_where_the_cap_helps_it_is_set(monkeypatch):
    machine(monkeypatch, DIES_WITHOUT_CAP)
    assert shield_from_amx()
    assert os.environ[ISA_VARIABLE] == WITHOUT_AMX


def test_a_cap_that_the_user_chose_is_left_alone(monkeypatch):
    monkeypatch.setenv(ISA_VARIABLE, "AVX2")
    machine(monkeypatch, DIES)
    assert not shield_from_amx()
    assert os.environ[ISA_VARIABLE] == "AVX2"


def test_a_healthy_processor_is_not_capped_and_one_without_amx_not_even_tried(monkeypatch):
    assert machine(monkeypatch, "pass") == []
    assert shield_from_amx()
    shield_from_amx.cache_clear()
    tried = machine(monkeypatch, DIES, amx=False)
    assert shield_from_amx()
    assert tried == []
    assert ISA_VARIABLE not in os.environ


def test_a_child_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(precision, "_PATIENCE_S", 0.5)
    machine(monkeypatch, "import time; time.sleep(60)")
    assert not shield_from_amx()


def test_amx_is_read_from_the_processors_flags(tmp_path):
    flags = tmp_path / "cpuinfo"
    assert not precision._names_amx(flags)
    flags.write_text("flags\t: avx2 avx512f avx512_bf16\n")
    assert not precision._names_amx(flags)
    flags.write_text("flags\t: avx2 amx_tile amx_bf16\n")
    assert precision._names_amx(flags)


def test_the_probe_is_a_true_bfloat16_product_and_the_cap_is_one_that_onednn_knows():
    """On any machine: capped, the product runs and oneDNN reports an instruction set without AMX."""
    told = subprocess.run(
        [sys.executable, "-c", precision._PRODUCT],
        env={**os.environ, ISA_VARIABLE: WITHOUT_AMX, "ONEDNN_VERBOSE": "1"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    assert str(64.0**3) in told.stdout
    assert "amx" not in told.stdout.split("isa:")[-1].splitlines()[0].lower()


def test_mixed_precision_stays_off_the_cpu():
    assert isinstance(autocast(torch.device("cpu")), contextlib.nullcontext)
    assert isinstance(autocast(torch.device("cuda")), torch.autocast)
