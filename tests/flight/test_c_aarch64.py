"""The C library on aarch64, emulated: the masks of this processor, and without fused multiply-adds its very bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from c_reference import (
    CROSS_COMPILER,
    EMULATOR,
    build,
    cross_build,
    decoded,
    has_compiler,
    lines_of,
    package_of,
    run_example,
    unet_model,
    write_lines,
)

from flame.pipeline.flight_image import flight_image

MISSING = [tool for tool in (CROSS_COMPILER, EMULATOR) if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING) or not has_compiler(),
    reason=f"not compared with aarch64: {', '.join(MISSING) or 'a C compiler'} is not installed",
)
SYSTEM = "/usr/aarch64-linux-gnu"
SIZE = 64


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """A model image and lines with a hole, more than one tile."""
    scene = lines_of("emit", SIZE, 0.02)
    image = flight_image(package_of(unet_model(), 32), scene.bands)
    return image, write_lines(tmp_path_factory.mktemp("lines") / "lines.bin", scene)


def _both(given: tuple[bytes, Path], tmp_path: Path, *options: str) -> tuple[Path, Path]:
    """Folders with what the example gave here and on aarch64."""
    image, lines = given
    folders = tmp_path / "here", tmp_path / "aarch64"
    builds = build(tmp_path / "built", *options), cross_build(tmp_path / "crossed", *options)
    for folder, built, emulator in zip(folders, builds, ((), (EMULATOR, "-L", SYSTEM)), strict=True):
        done = run_example(built, image, lines, SIZE, folder, emulator)
        assert done.returncode == 0, done.stderr
    return folders


def test_masks_are_equal_as_shipped(given: tuple[bytes, Path], tmp_path: Path) -> None:
    here, there = _both(given, tmp_path)
    assert (here / "mask.bin").read_bytes() == (there / "mask.bin").read_bytes()
    one, other = (decoded((folder / "packets.bin").read_bytes(), folder / "ground") for folder in (here, there))
    assert one.keys() == other.keys()
    assert len(one) > 3
    for number, plume in one.items():
        assert np.array_equal(plume.outline, other[number].outline)
        assert abs(plume.confidence - other[number].confidence) < 1e-4
        assert plume.mean_ppm_m == pytest.approx(other[number].mean_ppm_m, rel=1e-4, abs=0.05)


def test_packets_are_equal_without_fused_multiply_adds(given: tuple[bytes, Path], tmp_path: Path) -> None:
    """Rounding is then the same, so any other difference would be a mistake."""
    here, there = _both(given, tmp_path, "EXTRA=-ffp-contract=off", "OPTIMISED=-O1")
    for name in ("mask.bin", "packets.bin"):
        assert (here / name).read_bytes() == (there / name).read_bytes()
    assert (here / "packets.bin").stat().st_size > 0
