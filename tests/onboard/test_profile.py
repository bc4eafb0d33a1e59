"""Sensors as they stand in sysfs on Jetsons and PCs, and the measurement protocol."""

import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.onboard import Detector, write_package
from flame.onboard.profile import ProfileSettings, profile
from flame.onboard.telemetry import HardwareSensor, find_sensors, total_power_names
from flame.physics import sensor, unit_absorption
from flame.products.profile_figure import plot_profile
from tiny_models import plume_scene, whitening_model


def _write(root, entries):
    for path, text in entries.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


def orin_nx(root):
    """Names and units as on a Jetson Orin NX with JetPack 6."""
    monitor = "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon4/"
    rails = (("VDD_IN", 4968, 1912), ("VDD_CPU_GPU_CV", 4960, 640), ("VDD_SOC", 4968, 312))
    for number, (name, milli_volt, milli_ampere) in enumerate(rails, start=1):
        _write(
            root,
            {
                f"{monitor}in{number}_label": name,
                f"{monitor}in{number}_input": str(milli_volt),
                f"{monitor}curr{number}_input": str(milli_ampere),
            },
        )
    _write(root, {f"{monitor}in7_label": "sum of shunt voltages", f"{monitor}in7_input": "20"})
    for number, (name, milli_degrees) in enumerate(
        (("cpu-thermal", 48531), ("gpu-thermal", 51843), ("cv0-thermal", 0))
    ):
        zone = f"sys/class/thermal/thermal_zone{number}/"
        _write(root, {f"{zone}type": name, f"{zone}temp": str(milli_degrees)})


def test_a_jetson_with_hwmon(tmp_path):
    orin_nx(tmp_path)
    (tmp_path / "sys/class/thermal/thermal_zone2/temp").unlink()  # powered down: cannot be read
    found = {s.name: (s.quantity, s.unit, s.read()) for s in find_sensors(tmp_path)}
    assert found["VDD_IN"] == ("power", "W", pytest.approx(4.968 * 1.912))
    assert found["gpu-thermal"] == ("temperature", "degC", pytest.approx(51.843))
    assert set(found) == {"VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC", "cpu-thermal", "gpu-thermal"}


def test_an_older_jetson_with_iio(tmp_path):
    device = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/"
    _write(tmp_path, {f"{device}rail_name_0": "POM_5V_IN", f"{device}in_power0_input": "3120"})
    _write(tmp_path, {f"{device}rail_name_1": "NC", f"{device}in_power1_input": "0"})
    (rail,) = find_sensors(tmp_path)
    assert (rail.name, rail.read()) == ("POM_5V_IN", pytest.approx(3.12))


def test_rapl_counts_energy_and_wraps(tmp_path, monkeypatch):
    package = "sys/class/powercap/intel-rapl:0/"
    _write(tmp_path, {f"{package}name": "package-0", f"{package}max_energy_range_uj": "1000000"})
    _write(tmp_path, {f"{package}energy_uj": "400000"})
    _write(
        tmp_path, {"sys/class/powercap/intel-rapl:0:0/name": "core", "sys/class/powercap/intel-rapl:0:0/energy_uj": "1"}
    )
    clock = iter([10.0, 10.5, 11.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    (rail,) = find_sensors(tmp_path)
    assert rail.name == "RAPL package-0"
    assert rail.read() is None
    _write(tmp_path, {f"{package}energy_uj": "900000"})
    assert rail.read() == pytest.approx(1.0)
    _write(tmp_path, {f"{package}energy_uj": "150000"})
    assert rail.read() == pytest.approx(0.5)


def test_a_machine_without_sensors_has_none(tmp_path):
    assert find_sensors(tmp_path) == []


def test_equal_names_are_told_apart(tmp_path):
    for number in range(2):
        zone = f"sys/class/thermal/thermal_zone{number}/"
        _write(tmp_path, {f"{zone}type": "acpitz", f"{zone}temp": "40000"})
    assert [s.name for s in find_sensors(tmp_path)] == ["acpitz 0", "acpitz 1"]


def test_the_module_rail_is_the_total_where_there_is_one():
    assert total_power_names(["VDD_SOC", "VDD_IN", "VDD_CPU"]) == ("VDD_IN",)
    assert total_power_names(["VDD_GPU_SOC", "VDD_CPU_CV"]) == ("VDD_GPU_SOC", "VDD_CPU_CV")
    assert total_power_names([]) == ()


def _counted(values):
    numbers = iter(values)
    return lambda: next(numbers, values[-1])


def test_the_protocol_counts_what_it_says():
    detector = Detector(whitening_model(), threads=1)
    tiles = [plume_scene(32, 32, seed=s)[0] for s in range(2)]
    sensors = [
        HardwareSensor("VDD_IN", "power", "W", _counted([99.0, 4.0, 6.0, 5.0])),
        HardwareSensor("VDD_SOC", "power", "W", _counted([1.0])),
        HardwareSensor("gpu", "temperature", "degC", lambda: None),
    ]
    steps = []
    report = profile(detector, tiles, sensors, ProfileSettings(3, 4, 0.001), lambda: steps.append(1))
    assert len(steps) == 3 + 4 * 2
    assert len(report.latency_ms) == 4 * 2
    latency = report.latency()
    assert latency["min"] <= latency["p50"] <= latency["p99"] <= latency["max"]
    assert report.parts_ms["total"] <= latency["mean"]
    assert report.parts_ms["infer"] < report.parts_ms["total"]
    assert report.sensors["VDD_IN"].peak == 6.0  # the reading before the timed window does not count
    assert report.total_power_w()["peak"] == 6.0
    plain = report.to_dict()
    assert plain["sensors"]["gpu"] == {
        "quantity": "temperature",
        "unit": "degC",
        "mean": None,
        "peak": None,
        "readings": 0,
    }
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize("jetson", [True, False])
def test_the_command_writes_json_table_and_figure(jetson, tmp_path):
    bands = sensor("aviris-ng").bands.methane()
    package = whitening_model(32, bands, unit_absorption(bands).copy())
    path = write_package(package, tmp_path / "m.onnx")
    root = tmp_path / "root"
    root.mkdir()
    if jetson:
        orin_nx(root)
    options = ["--model", str(path), "--out", str(tmp_path / "out"), "--sysfs-root", str(root)]
    options += ["--tiles", "2", "--warm-up", "1", "--repetitions", "3"]
    result = CliRunner().invoke(app, ["profile", *options])
    assert result.exit_code == 0, result.output
    stored = json.loads((tmp_path / "out" / "profile.json").read_text())
    assert stored["protocol"] == {"warm_up": 1, "repetitions": 3, "interval_s": 0.1}
    assert (tmp_path / "out" / "profile.png").stat().st_size > 5000
    if jetson:
        assert stored["total_power_w"]["mean"] == pytest.approx(9.499, abs=0.01)
        assert "51.8 degC" in result.output
    else:
        assert stored["total_power_w"] == {"mean": None, "peak": None}
        assert "n/a" in result.output


def test_the_figure_draws_every_quantity(tmp_path):
    rng = np.random.default_rng(0)
    times = np.arange(50) / 10
    series = {
        "VDD_IN": ("W", times.tolist(), (9 + rng.normal(size=50)).tolist()),
        "gpu": ("degC", times.tolist(), (50 + times).tolist()),
        "off": ("W", [], []),
    }
    sizes = []
    for shown in ({}, series):
        plot_profile(tmp_path / "p.png", "title", rng.gamma(40, 1, 300).tolist(), shown, dpi=40)
        sizes.append((tmp_path / "p.png").stat().st_size)
    assert sizes[1] > sizes[0]
