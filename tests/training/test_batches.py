"""One transform moves every layer, and a batch follows from seed, epoch and tile number alone."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from toy_run import ToyTiles

from flame.models import BatchPreparer, ModelSettingsError, RawTile
from flame.training.augment import Placement, draw_placement
from flame.training.batches import BatchSettings, epoch_batches, prefetched, read_batch, stack
from flame.training.cache import CachedTile
from flame.training.recipes import recipe


def numbered(rows=5, cols=5):
    """A tile whose every layer carries the pixel's number."""
    number = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols)
    return CachedTile(
        "n", np.stack([number] * 4), number > 11, number % 2 == 0, np.stack([number] * 3), number, number, 1.0
    )


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("flip", [False, True])
def test_every_layer_moves_alike(turns, flip):
    moved = Placement(1, 2, 3, 3, turns, flip).apply(numbered())
    number = moved.teacher_ppm_m
    layers = [entry.name for entry in fields(moved) if isinstance(getattr(moved, entry.name), np.ndarray)]
    assert len(layers) == 6
    assert (moved.radiance == number).all()
    assert (moved.rgb == number).all()
    assert (moved.enhancement_ppm_m == number).all()
    assert (moved.label == (number > 11)).all()
    assert (moved.valid == (number % 2 == 0)).all()
    assert number.shape == (3, 3)
    assert set(number.ravel()) == {5 * r + c for r in (1, 2, 3) for c in (2, 3, 4)}


def test_all_eight_orientations_occur_equally():
    rng = np.random.default_rng(0)
    seen = {}
    for _ in range(800):
        place = draw_placement(numbered(), None, True, 0.5, rng)
        key = (place.quarter_turns, place.flip)
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 8
    assert min(seen.values()) > 60


def test_crops_stay_inside_and_find_plumes():
    tile = ToyTiles(1, size=40)[0]
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        cut = draw_placement(tile, 12, True, 1.0, rng).apply(tile)
        assert cut.valid.shape == (12, 12)
        hits += cut.label.any()
    assert hits == 200
    assert draw_placement(tile, 64, False, 1.0, rng) == Placement.whole(tile)


def test_an_epoch_shows_each_tile_once_and_epochs_differ():
    first, second = epoch_batches(20, 6, 0, 0), epoch_batches(20, 6, 0, 1)
    assert [len(batch) for batch in first] == [6, 6, 6]
    assert len({number for batch in first for number in batch}) == 18
    assert first != second
    assert first == epoch_batches(20, 6, 0, 0)
    assert len(epoch_batches(3, 24, 0, 0)[0]) == 3


def test_batches_do_not_depend_on_what_was_read_before():
    tiles, settings = ToyTiles(8), BatchSettings(size=4, crop=16)
    plan = epoch_batches(8, 4, 5, 2)

    def fresh():
        return BatchPreparer(recipe("tiny").model, tiles.bands)

    ahead = list(prefetched(tiles, plan, settings, 5, 2, fresh()))
    assert len(ahead) == 2
    alone = read_batch(tiles, plan[1], settings, 5, 2, fresh())
    assert alone.inputs.keys() == set(recipe("tiny").model.inputs)
    for name, tensor in alone.inputs.items():
        assert torch.equal(tensor, ahead[1].inputs[name]), name
    assert torch.equal(alone.label, ahead[1].label)
    assert not torch.equal(alone.label, read_batch(tiles, plan[1], settings, 5, 3, fresh()).label)
    assert list(prefetched(tiles, [], settings, 5, 2, fresh())) == []


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("flip", [False, True])
def test_a_turned_tile_is_prepared_as_flight_would(turns, flip):
    """Turned first and prepared afterwards; the other way round, the columns' noise would be the rows'."""
    tile = ToyTiles(1, size=20)[0]
    settings = recipe("tiny").model
    placed = Placement(2, 3, 16, 16, turns, flip).apply(tile)
    batch = stack([placed], BatchPreparer(settings, ToyTiles(1).bands))
    scene = RawTile(*(np.ascontiguousarray(a) for a in (placed.radiance, placed.valid, placed.rgb)))
    expected = BatchPreparer(settings, ToyTiles(1).bands).prepare([scene])
    for name, tensor in expected.inputs.items():
        assert torch.equal(batch.inputs[name], tensor), name


@pytest.mark.parametrize("bad", [0.0, -9999.0, 1e6, float("nan")])
def test_bad_pixels_teach_nothing(bad):
    """One rule for training and flight: the pixel is not usable, though the data set calls it valid."""
    tile = ToyTiles(1)[0]
    tile.radiance[:, 3, 4] = bad
    batch = stack([tile], BatchPreparer(recipe("tiny").model, ToyTiles(1).bands))
    assert not batch.usable[0, 3, 4]
    assert batch.usable.sum() == tile.valid.sum() - 1


def test_a_model_that_takes_rgb_refuses_tiles_without():
    tile = replace(ToyTiles(1)[0], rgb=None)
    with pytest.raises(ModelSettingsError, match="takes RGB"):
        stack([tile], BatchPreparer(recipe("tiny").model, ToyTiles(1).bands))
