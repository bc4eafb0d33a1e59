"""INT8 and narrower networks beside the float32 one: what they save and what they cost in F1.

    python benchmarks/quantized.py RUN [RUN ...] --data DIR [--tiles 100] [--rounds 10] [--json FILE]

Each run folder is exported for the tiles of the data set. The first is also quantised to 8 bits by onnxruntime
(static, per channel, calibrated on training tiles): the convolutions only, because whitening, transforms and score need
more than 8 bits. All are judged on test tiles by the same rule, and timed in turns on onnxruntime, whose integer
kernels these are.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from flame.detection import Evaluation
from flame.io import starcop
from flame.onboard import Detector, ModelPackage, load_model, sha256_of, write_package
from flame.pipeline.export import export_model
from flame.prepare import TilePreparer
from flame.tile import LabelledTile
from side_by_side import print_table, take_turns, write_json

RUNTIME = "onnxruntime"
CALIBRATION_TILES = 16


def tiles(data: Path, split: str, count: int) -> Iterator[LabelledTile]:
    return islice(starcop.read_dataset(data, split).tiles(), count)


class PreparedTiles(CalibrationDataReader):
    """Graph inputs of training tiles."""

    def __init__(self, package: Path, data: Path) -> None:
        facts = load_model(package).manifest
        preparer = TilePreparer(
            *(facts.prepare, facts.inputs, facts.bands, (facts.tile, facts.tile), np.array(facts.absorption)),
            block_rows=facts.block_rows,
        )
        self._inputs = iter(
            {name: values.copy() for name, values in inputs.items()}
            for tile in tiles(data, "train", CALIBRATION_TILES)
            if (inputs := preparer.prepare(tile.scene.radiance, tile.scene.valid, tile.scene.rgb).inputs) is not None
        )

    def get_next(self) -> dict | None:
        return next(self._inputs, None)


def quantise(package: Path, out: Path, data: Path) -> Path:
    loaded = load_model(package)
    quantize_static(
        str(package),
        str(out),
        PreparedTiles(package, data),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=["Conv"],
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    content = out.read_bytes()
    name = f"{loaded.manifest.name}, int8"
    manifest = replace(loaded.manifest, name=name, sha256=sha256_of(content), network=None)
    write_package(ModelPackage(manifest, content, str(out)), out)
    return out


def judge(detector: Detector, data: Path, count: int) -> dict[str, float]:
    evaluation = Evaluation()
    for tile in tiles(data, "test", count):
        found = detector.run(tile.scene)
        evaluation.add(found.probability, found.mask, tile.label, tile.scene.valid, tile.emission_kg_h)
    figures = evaluation.metrics()
    return {name: getattr(figures, name) for name in ("f1", "precision", "recall", "pixel_fpr", "auprc")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tiles", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    side = next(tiles(given.data, "test", 1)).scene.shape[0]
    with tempfile.TemporaryDirectory() as folder:
        packages = {}
        for run in given.runs:
            out = Path(folder) / f"{run.name}.onnx"
            export_model(run, out, side, run.name)
            packages[run.name] = out
        first = next(iter(packages))
        packages[f"{first}, int8"] = quantise(packages[first], Path(folder) / "int8.onnx", given.data)
        detectors = {name: Detector(file, RUNTIME) for name, file in packages.items()}
        scene = next(tiles(given.data, "test", 1)).scene
        times = take_turns({name: lambda d=d: d.run(scene) for name, d in detectors.items()}, given.rounds)
        figures = {
            name: {
                **judge(detector, given.data, given.tiles),
                "seconds": times[name].best,
                "mb": packages[name].stat().st_size / 1e6,
            }
            for name, detector in detectors.items()
        }
    base = figures[first]
    print_table(
        f"{given.tiles} tiles of {side} x {side}, {RUNTIME}",
        ["", "F1", "AUPRC", "FPR x 1e4", "ms", "speed", "MB"],
        [
            [
                name,
                f"{row['f1']:.3f}",
                f"{row['auprc']:.3f}",
                f"{1e4 * row['pixel_fpr']:.1f}",
                f"{1e3 * row['seconds']:.1f}",
                f"{base['seconds'] / row['seconds']:.2f}x",
                f"{row['mb']:.1f}",
            ]
            for name, row in figures.items()
        ],
    )
    write_json(given.json, figures)


if __name__ == "__main__":
    main()
