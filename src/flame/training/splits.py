"""An own validation split, carved from the training tiles and never from the test set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Bool

from flame.errors import FlameError
from flame.io import TileRecord
from flame.io.names import scene_of

__all__ = ["SplitError", "carve_validation", "on_other_ground", "require_plumes", "scene_of", "validation_mask"]

VALIDATION_SHARE = 0.1


class SplitError(FlameError):
    """Tiles that cannot be split as asked."""


def validation_mask(names: Sequence[str], share: float = VALIDATION_SHARE, seed: int = 0) -> Bool[np.ndarray, " tile"]:
    """Marks the tiles that belong to validation.

    A scene's side follows from its name alone: a tile added or lost later moves no other tile.

    Args:
        names: Tile identifiers.
        share: Share of scenes to hold out, above 0 and below 1.
        seed: Another seed draws other scenes.

    Raises:
        SplitError: If the share is out of range or the tiles come from a single scene.
    """
    if not 0 < share < 1:
        raise SplitError(f"the validation share must lie between 0 and 1, got {share}")
    draws = {scene: _draw(scene, seed) for scene in {scene_of(name) for name in names}}
    if len(draws) < 2:
        raise SplitError(
            f"{len(names)} tiles of {len(draws)} scene cannot be split into training and validation; add tiles of "
            "another flight line or scene, or give --validation"
        )
    ordered = sorted(draws, key=draws.__getitem__)
    held = {scene for scene in ordered if draws[scene] < share} or {ordered[0]}
    if len(held) == len(draws):
        held.discard(ordered[-1])
    return np.array([scene_of(name) in held for name in names], dtype=np.bool_)


def on_other_ground(names: Sequence[str], held: Iterable[str]) -> Bool[np.ndarray, " tile"]:
    """Marks the tiles of scenes that no held-out tile was cut from.

    Args:
        names: Tiles to train on.
        held: Tiles held out for validation.

    Raises:
        SplitError: If none is left.
    """
    scenes = {scene_of(name) for name in held}
    mask = np.array([scene_of(name) not in scenes for name in names], dtype=np.bool_)
    if not mask.any():
        raise SplitError(
            f"all {len(names)} training tiles lie on ground that validation uses too; validate on other scenes"
        )
    return mask


def require_plumes(tiles: int, labels: Iterable[Bool[np.ndarray, "_row _col"]]) -> None:
    """Refuses a validation set by which no epoch could be chosen.

    Args:
        tiles: How many tiles it has.
        labels: The valid labelled pixels of each tile; read up to the first plume.

    Raises:
        SplitError: If no tile has a labelled plume.
    """
    if not any(label.any() for label in labels):
        raise SplitError(
            f"none of the {tiles} validation tiles has a labelled plume, so no epoch can be chosen by them; "
            "train on more tiles, or give --validation a folder with plumes"
        )


def carve_validation(
    records: Sequence[TileRecord], share: float = VALIDATION_SHARE, seed: int = 0
) -> tuple[tuple[TileRecord, ...], tuple[TileRecord, ...]]:
    """Splits the training records into those to train on and those to validate with.

    Args:
        records: Rows of the training list.
        share: Share of scenes to hold out.
        seed: Another seed draws other scenes.

    Raises:
        SplitError: If a record is of the test set, or the tiles cannot be split.
    """
    for record in records:
        if record.split == "test":
            raise SplitError(f"{record.name} is a test tile; validation is carved from the training tiles only")
    mask = validation_mask([record.name for record in records], share, seed)
    training = tuple(record for record, held in zip(records, mask, strict=True) if not held)
    return training, tuple(record for record, held in zip(records, mask, strict=True) if held)


def _draw(scene: str, seed: int) -> float:
    digest = hashlib.blake2b(f"{seed}:{scene}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
