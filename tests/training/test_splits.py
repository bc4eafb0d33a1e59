"""The validation split: by scene, by name alone, and never from the test set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flame.io import TileRecord
from flame.io.names import injected_name
from flame.training.splits import (
    SplitError,
    carve_validation,
    on_other_ground,
    require_plumes,
    scene_of,
    validation_mask,
)

LINES = [f"ang201910{day:02d}t{hour:02d}0000" for day in range(1, 31) for hour in range(10, 20)]

EVERY = validation_mask(LINES, 0.5)


def tiles_of(lines: list[str], each: int = 3) -> list[str]:
    return [f"{line}_r{256 * at}_c0_w512_h512" for line in lines for at in range(each)]


@pytest.mark.parametrize(
    ("name", "scene"),
    [
        ("ang20191018t144405_r2674_c436_w151_h151", "ang20191018t144405"),
        ("ang20191018t144405_r2674_c436_w151_h151_r0_c64_w64_h64", "ang20191018t144405"),
        ("EMIT_L1B_RAD_001_20230204T041009_2303503_016_r0_c64_w64_h64", "20230204T041009"),
        ("event_7_r0_c64_w64_h64_r0_c0_w32_h32", "event_7"),
        ("sim_0001", "sim_0001"),
        ("sim_wide_3_000007", "sim_wide_3_000007"),
        ("real_airport-2_wide_3_000007", "airport-2"),
        ("real_airport-2_narrow_4_000001_r0_c64_w64_h64", "airport-2"),
        ("real_ang20191018t144405-rdn-v2-img_wide_3_000007", "ang20191018t144405"),
        ("real_wide_3_000007", "real_wide_3"),
    ],
)
def test_scenes_are_read_from_names(name: str, scene: str) -> None:
    assert scene_of(name) == scene


@given(seed=st.integers(0, 1000), share=st.floats(0.02, 0.5))
def test_a_flight_line_is_never_on_both_sides(seed: int, share: float) -> None:
    names = tiles_of(LINES[:40])
    held = validation_mask(names, share, seed)
    sides = {}
    for name, side in zip(names, held, strict=True):
        assert sides.setdefault(scene_of(name), side) == side
    assert 0 < held.sum() < len(names)


@given(lost=st.sets(st.sampled_from(LINES), max_size=100))
def test_a_tile_added_or_lost_moves_no_other(lost: set[str]) -> None:
    every = dict(zip(LINES, EVERY, strict=True))
    left = [line for line in LINES if line not in lost]
    held = validation_mask(left, 0.5)
    assert [every[line] for line in left] == held.tolist()


def test_the_share_is_about_what_was_asked_for() -> None:
    names = tiles_of(LINES, each=1)
    for share in (0.1, 0.3):
        assert abs(validation_mask(names, share).mean() - share) < 3 * np.sqrt(share * (1 - share) / len(names))


def test_the_split_is_the_same_on_every_machine() -> None:
    assert np.flatnonzero(validation_mask(LINES[:20], 0.2)).tolist() == [1, 2, 7, 10, 11, 12, 13, 14]
    assert np.flatnonzero(validation_mask(LINES[:20], 0.2, seed=1)).tolist() == [0]


@pytest.mark.parametrize("share", [0.001, 0.999])
def test_neither_side_is_ever_empty(share: float) -> None:
    held = validation_mask(["a", "b", "c"], share)
    assert held.any()
    assert not held.all()


def test_records_are_carved() -> None:
    records = [TileRecord(name, "train", has_plume=True) for name in tiles_of(LINES[:30])]
    training, validation = carve_validation(records)
    assert set(training) | set(validation) == set(records)
    assert not set(training) & set(validation)
    assert not {record.flight_line for record in training} & {record.flight_line for record in validation}


def test_the_test_set_is_refused() -> None:
    records = [TileRecord(name, "train", has_plume=True) for name in tiles_of(LINES[:3])]
    with pytest.raises(SplitError, match="is a test tile"):
        carve_validation([*records, TileRecord("ang20191018t144405_r0", "test", has_plume=False)])


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_shares_out_of_range(share: float) -> None:
    with pytest.raises(SplitError, match="between 0 and 1"):
        validation_mask(["a", "b"], share)


def test_tiles_of_one_real_chip_are_never_on_both_sides() -> None:
    """Whatever the data set: plumes are injected anew into the same ground."""
    chips = [f"chip_{number}" for number in range(12)]
    names = [injected_name(chip, "wide", seed, index) for seed in (3, 4) for index, chip in enumerate(5 * chips)]
    held = validation_mask(names, 0.3)
    assert 0 < held.sum() < len(names)
    sides = {name.split("_")[1]: set() for name in names}
    for name, side in zip(names, held, strict=True):
        sides[name.split("_")[1]].add(bool(side))
    assert all(len(side) == 1 for side in sides.values())


def test_training_leaves_out_the_ground_of_a_validation_set() -> None:
    names = [injected_name(chip, "wide", 3, index) for index, chip in enumerate(["a", "b", "a", "c"])]
    kept = on_other_ground(names, [injected_name("a", "wide", 9, 0)])
    assert kept.tolist() == [False, True, False, True]
    with pytest.raises(SplitError, match="all 4 training tiles lie on ground that validation uses too"):
        on_other_ground(names, names)


def test_a_validation_set_without_plumes_is_refused() -> None:
    empty = np.zeros((4, 4), np.bool_)
    plume = empty.copy()
    plume[0, 0] = True
    require_plumes(2, iter([empty, plume]))
    with pytest.raises(SplitError, match=r"none of the 2 validation tiles has a labelled plume.*--validation"):
        require_plumes(2, iter([empty, empty]))


def test_one_scene_cannot_be_split() -> None:
    with pytest.raises(SplitError, match="another flight line"):
        validation_mask(tiles_of(LINES[:1]))
