"""The paper's measurement protocol (sec:edge_hardware): latency, power and temperature of one model on one machine."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flame.onboard.backends import usable_cores
from flame.onboard.detector import Detector
from flame.onboard.telemetry import HardwareSensor, total_power_names
from flame.scene import Scene

__all__ = ["ProfileReport", "ProfileSettings", "SensorSeries", "profile"]


@dataclass(frozen=True)
class ProfileSettings:
    """How long is measured; the defaults are the paper's.

    Attributes:
        warm_up: Untimed detections before.
        repetitions: Timed passes over the set of tiles.
        interval_s: Time between two readings of the sensors.
    """

    warm_up: int = 50
    repetitions: int = 200
    interval_s: float = 0.1


@dataclass
class SensorSeries:
    """Readings of one sensor during the timed window."""

    quantity: str
    unit: str
    times_s: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        """Mean of the readings, None without any."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def peak(self) -> float | None:
        """Highest reading, None without any."""
        return float(np.max(self.values)) if self.values else None

    def summary(self) -> dict[str, Any]:
        """What JSON says of it."""
        figures = {"mean": self.mean, "peak": self.peak, "readings": len(self.values)}
        return {"quantity": self.quantity, "unit": self.unit} | figures


@dataclass(frozen=True, eq=False)
class ProfileReport:
    """What was measured.

    Attributes:
        settings: How long.
        tile_shape: Rows and columns of the tiles.
        tiles: Number of tiles in the set.
        latency_ms: Wall-clock time of every timed detection of one tile, preparation and decision included.
        parts_ms: Mean time of each part.
        sensors: Readings by sensor.
        machine: What it was measured on.
        model: Name and checksum of the model, and its engine.
    """

    settings: ProfileSettings
    tile_shape: tuple[int, int]
    tiles: int
    latency_ms: tuple[float, ...]
    parts_ms: dict[str, float]
    sensors: dict[str, SensorSeries]
    machine: dict[str, Any]
    model: dict[str, str]

    def latency(self) -> dict[str, float]:
        """Mean, median, 99th percentile, least and greatest latency, in ms."""
        times = np.array(self.latency_ms)
        return {
            "mean": float(times.mean()),
            "p50": float(np.percentile(times, 50)),
            "p99": float(np.percentile(times, 99)),
            "min": float(times.min()),
            "max": float(times.max()),
        }

    def total_power_w(self) -> dict[str, float | None]:
        """Mean and peak of the whole module's power; None on a machine that does not tell."""
        power = {name: series for name, series in self.sensors.items() if series.quantity == "power" and series.values}
        chosen = [power[name] for name in total_power_names(power)]
        if not chosen:
            return {"mean": None, "peak": None}
        length = min(len(series.values) for series in chosen)
        total = np.sum([series.values[-length:] for series in chosen], axis=0)
        return {"mean": float(total.mean()), "peak": float(total.max())}

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; what the machine does not tell is None."""
        return {
            "protocol": asdict(self.settings),
            "model": self.model,
            "machine": self.machine,
            "tile": list(self.tile_shape),
            "tiles": self.tiles,
            "latency_ms": self.latency(),
            "parts_ms": self.parts_ms,
            "total_power_w": self.total_power_w(),
            "sensors": {
                name: {
                    "quantity": s.quantity,
                    "unit": s.unit,
                    "mean": s.mean,
                    "peak": s.peak,
                    "readings": len(s.values),
                }
                for name, s in self.sensors.items()
            },
        }


class _Sampler:
    """Reads all sensors in a thread of its own until stopped."""

    def __init__(self, sensors: Sequence[HardwareSensor], interval_s: float) -> None:
        self.series = {s.name: SensorSeries(s.quantity, s.unit) for s in sensors}
        self._sensors = sensors
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Sampler:
        for sensor in self._sensors:
            sensor.read()  # counters need a first reading to compare with
        self._began = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._take()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._take()

    def _take(self) -> None:
        for sensor in self._sensors:
            value = sensor.read()
            if value is not None:
                self.series[sensor.name].times_s.append(time.perf_counter() - self._began)
                self.series[sensor.name].values.append(value)


def profile(
    detector: Detector,
    tiles: Sequence[Scene],
    sensors: Sequence[HardwareSensor] = (),
    settings: ProfileSettings | None = None,
    progress: Callable[[], None] = lambda: None,
) -> ProfileReport:
    """Measures a detector on a fixed set of tiles (the paper's has five).

    Args:
        detector: What is measured.
        tiles: Scenes of one tile each.
        sensors: From `find_sensors`.
        settings: How long; the paper's unless given.
        progress: Called after each detection, warm-up included.
    """
    settings = settings or ProfileSettings()
    for at in range(settings.warm_up):
        detector.run(tiles[at % len(tiles)])
        progress()
    latency_ms: list[float] = []
    parts: dict[str, float] = {}
    with _Sampler(sensors, settings.interval_s) as sampler:
        for _ in range(settings.repetitions):
            for tile in tiles:
                began = time.perf_counter()
                found = detector.run(tile)
                latency_ms.append(1e3 * (time.perf_counter() - began))
                for name, seconds in asdict(found.timings).items():
                    parts[name.removesuffix("_s")] = parts.get(name.removesuffix("_s"), 0.0) + 1e3 * seconds
                progress()
    return ProfileReport(
        settings=settings,
        tile_shape=tiles[0].shape,
        tiles=len(tiles),
        latency_ms=tuple(latency_ms),
        parts_ms={name: total / len(latency_ms) for name, total in parts.items()},
        sensors=sampler.series,
        machine={"processor": _processor(), "cores": usable_cores(), "system": platform.platform(terse=True)},
        model={
            "name": detector.manifest.name,
            "sensor": detector.manifest.sensor,
            "sha256": detector.manifest.sha256,
            "runtime": detector.runtime,
        },
    )


def _processor() -> str:
    """Name of the processor as the system gives it, or of the whole board on a Jetson."""
    board = Path("/proc/device-tree/model")
    if board.is_file():
        return board.read_text(errors="replace").strip("\0\n ")
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
