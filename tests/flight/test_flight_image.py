"""Model images: what is refused, and the command that writes them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from c_reference import package_of, unet_model, with_checksum
from typer.testing import CliRunner

from flame.cli.app import app
from flame.models.onnx_graph import GraphError
from flame.models.plus import FlamePlus, PlusSettings
from flame.onboard import ModelPackage, write_package
from flame.physics import BandSet, sensor
from flame.pipeline.flight_image import FlightImageError, flight_image
from flame.prepare.planes import LEAST_SIGMA_SHARE
from tiny_models import filter_model


@pytest.fixture(scope="module")
def package() -> ModelPackage:
    return package_of(unet_model(functions=5, width=8, hidden=8), 64)


def test_the_checksum_is_that_of_the_content(package: ModelPackage) -> None:
    image = flight_image(package)
    assert image[:8] == b"FLMIMAGE"
    assert with_checksum(image) == image
    assert struct.unpack_from("<I", image, 12) == (len(image),)
    sizes = np.frombuffer(image, "<i4", 3, *struct.unpack_from("<I", image, 24))
    assert sizes.tolist() == [64, 8, len(package.manifest.bands)]


def test_the_image_carries_the_rule_of_lines(package: ModelPackage) -> None:
    for core in (0.0, 3.2):
        image = flight_image(package_of(unet_model(functions=5, width=8, hidden=8), 64, core))
        assert struct.unpack_from("<I", image, 8) == (4,)
        numbers = np.frombuffer(image, "<f8", 16, *struct.unpack_from("<I", image, 32))
        assert numbers[2:4].tolist() == [package.manifest.threshold, core]
        assert numbers[15] == np.float32(LEAST_SIGMA_SHARE)


def test_bands_and_tile_can_be_chosen(package: ModelPackage) -> None:
    bands = sensor("emit").bands.methane()
    image = flight_image(package, bands, 96)
    sizes = np.frombuffer(image, "<i4", 3, *struct.unpack_from("<I", image, 24))
    assert sizes.tolist() == [96, 12, len(bands)]
    with pytest.raises(FlightImageError, match="multiple of 32 pixels, got 100"):
        flight_image(package, bands, 100)
    with pytest.raises(FlightImageError, match="does not take bands"):
        flight_image(package, BandSet(np.array([2200.0, 2300.0]), np.array([5.0, 5.0])))


def test_other_networks_are_refused() -> None:
    with pytest.raises(FlightImageError, match="not a network of planes"):
        flight_image(filter_model())
    with pytest.raises(GraphError, match="only networks on the backbone 'unet' fly, not 'coarse-ufno'"):
        package_of(FlamePlus(PlusSettings(functions=5, width=8, hidden=8, backbone="coarse-ufno")).eval(), 64)


def test_the_command_writes_an_image(package: ModelPackage, tmp_path: Path) -> None:
    model, out = write_package(package, tmp_path / "m.onnx"), tmp_path / "flight.bin"
    options = ["export-flight", "--model", str(model), "--sensor", "emit", "--tile", "32", "--out", str(out)]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    assert f"{out.stat().st_size / 1e6:.2f} MB" in done.output
    assert out.read_bytes() == flight_image(package, sensor("emit").bands.methane(), 32)
    done = CliRunner().invoke(app, [*options, "--scene", "x"])
    assert done.exit_code != 0
