"""Scales of the comparison: the paper's own, one that two cores can carry, and one for tests."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from flame.errors import FlameError

__all__ = ["SCALES", "Scale", "UnknownScaleError", "scale_named"]


class UnknownScaleError(FlameError):
    """A scale name that is not in the list."""


@dataclass(frozen=True)
class Scale:
    """How large the experiment is.

    Attributes:
        name: Its name.
        size: Rows and columns of a simulated tile.
        train_tiles: Training tiles, half of them with a plume; some are held out for validation.
        test_tiles: Test tiles, half of them with a plume.
        epochs: Passes over the training tiles.
        batch: Tiles in a batch.
        preset: Simulator's preset of the tiles.
        seed: Seed of the tiles.
    """

    name: str
    size: int
    train_tiles: int
    test_tiles: int
    epochs: int
    batch: int
    preset: str = "permian"
    seed: int = 12

    @property
    def phase_one_epochs(self) -> int:
        """Epochs until the teacher's weight is zero: the paper's 10 of 50, in proportion."""
        return max(1, round(self.epochs / 5))

    def facts(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def tile_facts(self) -> dict[str, Any]:
        """What the tiles depend on, ready for JSON."""
        return {name: value for name, value in self.facts().items() if name not in ("epochs", "batch")}

    def words(self) -> str:
        """One line for the top of a table."""
        return (
            f"{self.size} x {self.size} pixels, {self.train_tiles} training and {self.test_tiles} test tiles, half of "
            f"them with a plume, {self.epochs} epochs in batches of {self.batch}"
        )


SCALES: dict[str, Scale] = {
    scale.name: scale
    for scale in (
        Scale("paper", size=512, train_tiles=3425, test_tiles=342, epochs=50, batch=24),
        Scale("small", size=96, train_tiles=900, test_tiles=240, epochs=8, batch=8),
        Scale("tiny", size=48, train_tiles=16, test_tiles=8, epochs=2, batch=4, preset="cluttered", seed=13),
    )
}
"""`paper` has the paper's numbers of tiles, epochs and batch; on STARCOP (`--data`) its tiles are STARCOP's own."""


def scale_named(name: str, tiles: int | None = None) -> Scale:
    """The scale of that name.

    Args:
        name: One of `SCALES`.
        tiles: So many training and test tiles instead of the scale's, for a trial.

    Raises:
        UnknownScaleError: If the name is not known; the message lists those that are.
    """
    if name not in SCALES:
        raise UnknownScaleError(f"no scale '{name}'; known are {', '.join(SCALES)}")
    return SCALES[name] if tiles is None else replace(SCALES[name], train_tiles=tiles, test_tiles=tiles)
