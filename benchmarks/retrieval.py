"""A trained score as a retrieval, beside the tile's log-domain matched filter: noise on plain ground, truth on plumes.

    python benchmarks/retrieval.py RUN --data DIR [--tiles 60] [--json FILE]

Tiles are of the data set's test split and must know their true enhancement, as simulated ones do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from flame.models import BatchPreparer
from flame.models.weights import load_model
from flame.training.batches import stack
from flame.training.data import open_split
from side_by_side import print_table, write_json

PLAIN_PPM_M = 100.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tiles", type=int, default=60)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    model, source = load_model(given.run).model.eval(), open_split(given.data, "test", 1)
    preparer = BatchPreparer(model.settings, source.bands, torch.get_num_threads())
    maps: dict[str, list[np.ndarray]] = {"matched filter": [], "score": []}
    truth = []
    for number in range(min(given.tiles, len(source))):
        tile = source[number]
        batch = stack([tile], preparer)
        with torch.no_grad():
            at = model.coordinates(batch.inputs)
            filtered = torch.einsum("nbrc,nb->nrc", at.scored, at.direction)
            score = model(batch.inputs).score_ppm_m
        maps["matched filter"].append(filtered[0].numpy()[tile.valid])
        maps["score"].append(score[0].numpy()[tile.valid])
        truth.append(tile.enhancement_ppm_m[tile.valid])
    true = np.concatenate(truth)
    plain = true < PLAIN_PPM_M
    figures = {}
    for name, parts in maps.items():
        found = np.concatenate(parts)
        figures[name] = {
            "plain_ground_rms_ppm_m": float(np.sqrt(np.mean(np.square(found[plain])))),
            "plume_correlation": float(np.corrcoef(found[~plain], true[~plain])[0, 1]),
        }
    print_table(
        f"{len(truth)} tiles, {int((~plain).sum())} pixels above {PLAIN_PPM_M:.0f} ppm m",
        ["", "rms on plain ground, ppm m", "correlation on plumes"],
        [[name, *(f"{value:.3g}" for value in row.values())] for name, row in figures.items()],
    )
    write_json(given.json, figures)


if __name__ == "__main__":
    main()
