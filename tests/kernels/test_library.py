"""The compiled library: its limits, its switch, and that it is never called with signatures it does not have."""

import ctypes
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flame.kernels import KernelsError, library, limits, load_kernels, why_no_kernels, why_no_network
from flame.kernels.sources import checksum

FOLDER = Path(library.__file__).parent
REPOSITORY = Path(__file__).parents[2]
FITS = {"tile": 512, "grid": 2, "bands": 72, "fields": 7, "width": 14, "hidden": 28, "last": 14, "modes": 12}

needs_kernels = pytest.mark.skipif(load_kernels() is None, reason="built without a C compiler")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture
def sources(tmp_path):
    """The sources with their library, somewhere else."""
    shutil.copytree(FOLDER, tmp_path / "kernels")
    return tmp_path / "kernels"


@needs_kernels
def test_an_old_library_beside_new_sources_is_refused_with_a_hint(sources, caplog):
    assert library._opened(sources / "kernels.so")[1] is None
    library._opened.cache_clear()
    with (sources / "network.c").open("a") as file:
        file.write("/* changed by a pull */\n")
    with caplog.at_level(logging.WARNING):
        found, why = library._opened(sources / "kernels.so")
    assert found is None
    assert "compiled from other sources than those beside it; compile it again with: pip install -e ." in why
    assert len(caplog.records) == 1
    assert "\n" not in caplog.text.strip()


@needs_compiler
def test_a_library_from_before_there_were_checksums_is_refused(tmp_path):
    (tmp_path / "old.c").write_text("int instruction_set(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "old.c", "-o", tmp_path / "kernels.so"], check=True)
    assert "other sources" in library._opened(tmp_path / "kernels.so")[1]


def test_what_is_no_library_is_told(tmp_path):
    assert "built without native kernels" in library._opened(tmp_path / "other.so")[1]
    (tmp_path / "kernels.so").write_bytes(b"not a library")
    assert "not made for this processor" in library._opened(tmp_path / "kernels.so")[1]


def test_the_checksum_is_of_every_source_and_its_name(sources):
    first = checksum(sources)
    (sources / "limits.h").rename(sources / "limit.h")
    assert checksum(sources) != first
    assert checksum(sources.parent) is None


@needs_kernels
def test_the_switch_takes_a_lesser_instruction_set(monkeypatch):
    for name in library._SETS[: library._SETS.index(load_kernels().instructions) + 1]:
        monkeypatch.setenv("FLAME_KERNELS", name)
        assert load_kernels().instructions == name
    monkeypatch.setenv("FLAME_KERNELS", "none")
    assert load_kernels() is None
    assert why_no_kernels() == "FLAME_KERNELS is 'none'"
    monkeypatch.setenv("FLAME_KERNELS", "mmx")
    with pytest.raises(KernelsError, match="no instruction set 'mmx'; known are baseline, avx2, avx512 and none"):
        load_kernels()


@needs_kernels
def test_an_instruction_set_that_the_processor_lacks_is_refused(monkeypatch):
    class Lesser:
        def instruction_set(self):
            return 0

    monkeypatch.setattr(library, "_opened", lambda path: (Lesser(), None))
    monkeypatch.setenv("FLAME_KERNELS", "avx512")
    with pytest.raises(KernelsError, match="this processor has no avx512; the best it has is baseline"):
        load_kernels()


def test_limits_are_those_of_the_header():
    text = (FOLDER / "limits.h").read_text()
    for name in ("MOST_BANDS", "MOST_TAPS", "MOST_WIDTH", "TILE_STEP", "SIDE", "MOST_THREADS"):
        assert f"#define {name} {getattr(limits, name)} " in text
    for other in FOLDER.glob("*.[ch]"):
        assert other.name == "limits.h" or "#define MOST_BANDS" not in other.read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tile": 500}, "multiples of 32"),
        ({"tile": 4096}, "pixels a side"),
        ({"tile": 32}, "12 Fourier modes on a grid of 16 steps"),
        ({"bands": 324}, "324 bands"),
        ({"bands": 11}, "blocks of five and four"),
        ({"fields": 600}, "bands and pixel fields"),
        ({"width": 65}, "65 features"),
        ({"width": 6}, "6 features cannot be divided"),
        ({"hidden": 65}, "hidden channels"),
        ({"modes": 13}, "13 Fourier modes"),
    ],
)
def test_networks_that_do_not_fit_are_told_why(change, message):
    assert why_no_network(**FITS) is None
    assert message in why_no_network(**(FITS | change))


def test_the_kernels_need_no_openmp():
    path = FOLDER / "kernels.so"
    if not path.is_file():
        pytest.skip("built without a C compiler")
    assert b"GOMP_" not in path.read_bytes()
    assert ctypes.CDLL(str(path)) is not None


@needs_compiler
def test_the_build_tells_what_the_compiler_said(sources, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY))
    import hatch_build

    (sources / "network.c").write_text("int broken(void) { return undeclared; }\n")
    with pytest.raises(hatch_build.CompilerError, match="undeclared"):
        hatch_build.compile_kernels(sources, tmp_path / "out.so")
    monkeypatch.setattr(hatch_build, "FOLDER", Path("kernels"))
    hook = hatch_build.KernelsHook(str(tmp_path), {}, None, None, str(tmp_path), "wheel")
    hook.initialize("standard", {"artifacts": []})
    said = capsys.readouterr().err
    assert "built without native kernels" in said
    assert "error" in said
    assert "undeclared" in said
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(hatch_build.CompilerError, match="cannot run no-such-compiler"):
        hatch_build.compile_kernels(sources, tmp_path / "out.so")
    assert "hatch_build" in sys.modules
