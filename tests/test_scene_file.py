"""A scene in its file says the same as the scene in memory, and keeps nothing it does not need."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from flame.scene import (
    Acquisition,
    BandSet,
    ColumnBands,
    MaskRule,
    Scene,
    SceneError,
    SceneFile,
    SceneFlag,
    flag_counts,
)
from flame.scene.lazy import LinesRead
from flame.scene.surface import surface_flags

BANDS = BandSet(np.array([2200.0, 2300.0, 2350.0]), np.full(3, 6.0))


class Disk:
    """Stands for a file: counts how many lines leave it."""

    def __init__(self, rows: int = 12, cols: int = 5) -> None:
        rng = np.random.default_rng(0)
        self.radiance = rng.uniform(0.5, 2.0, (3, rows, cols)).astype(np.float32)
        self.rgb = rng.uniform(1.0, 9.0, (3, rows, cols)).astype(np.float32)
        self.flags = np.zeros((rows, cols), np.uint16)
        self.flags[2, 1] = SceneFlag.FILL
        self.flags[3] = SceneFlag.WATER
        self.lines = 0

    def read(self, rows: slice) -> LinesRead:
        self.lines += rows.stop - rows.start
        return LinesRead(self.radiance[:, rows].copy(), self.rgb[:, rows].copy(), self.flags[rows].copy())

    def scene(self, rule: MaskRule | None = None) -> SceneFile:
        return SceneFile(BANDS, self.flags.shape, self.read, Acquisition(source="line_3"), has_rgb=True, rule=rule)


def test_opening_reads_nothing_and_each_line_is_read_once_for_its_layers() -> None:
    disk = Disk()
    scene = disk.scene()
    assert disk.lines == 0
    for part in scene.blocks(5):
        assert part.radiance.shape[1] <= 5
    assert disk.lines == 12
    np.testing.assert_array_equal(scene.flags, disk.flags)
    np.testing.assert_array_equal(scene.rgb, disk.rgb)
    assert disk.lines == 12


def test_in_memory_and_in_its_file_are_the_same() -> None:
    scene = Disk().scene()
    loaded = scene.load()
    assert isinstance(loaded, Scene)
    for first, stop in ((0, 12), (3, 9)):
        ours, theirs = scene.rows(first, stop), loaded.rows(first, stop)
        for layer in ("radiance", "valid", "rgb", "flags"):
            np.testing.assert_array_equal(getattr(ours, layer), getattr(theirs, layer))
    np.testing.assert_array_equal(scene.colour(), loaded.colour())
    assert loaded.acquisition.extra["invalid_pixels"] == "6"


def test_a_scene_without_a_usable_pixel_names_what_would_help_most() -> None:
    disk = Disk()
    disk.flags[:] = SceneFlag.FILL | SceneFlag.HAZE  # haze masks nothing: to keep it would not help
    with pytest.raises(SceneError, match=r"haze 100 %\); fill cannot be kept: .*; give another scene$"):
        disk.scene().check_usable()
    disk.flags[:] = SceneFlag.DETECTOR | SceneFlag.HAZE
    disk.flags[0] = SceneFlag.CLOUD
    with pytest.raises(SceneError, match="keep some with --keep-detector, or"):
        disk.scene().check_usable()
    disk.scene(MaskRule.keeping(["detector"])).check_usable()
    disk.flags[:] = SceneFlag.WATER | SceneFlag.CLOUD  # to keep one of them would give nothing
    with pytest.raises(SceneError, match="keep some with --keep-cloud --keep-water, or"):
        disk.scene().check_usable()


@pytest.mark.parametrize("bright", [SceneFlag.FLARE, SceneFlag.SATURATED])
def test_a_scene_that_is_all_light_suspects_its_unit(bright: SceneFlag) -> None:
    disk = Disk()
    disk.flags[:] = bright
    with pytest.raises(SceneError, match="--unit or --scale") as caught:
        disk.scene().check_usable()
    assert "--keep" not in str(caught.value)


def test_every_cause_that_can_be_kept_has_its_option() -> None:
    from flame.cli.scene_options import scene_options
    from flame.scene.flags import KEEPABLE

    assert {f"keep_{name}" for name in KEEPABLE} < inspect.signature(scene_options).parameters.keys()
    assert scene_options(keep_detector=True).mask == MaskRule.keeping(["detector"])


def test_the_rule_decides_what_is_valid() -> None:
    assert np.count_nonzero(Disk().scene().valid) == 12 * 5 - 6
    assert np.count_nonzero(Disk().scene(MaskRule.keeping(["water"])).valid) == 12 * 5 - 1
    assert flag_counts(Disk().flags) == {"fill": 1, "water": 5}


def test_what_has_no_measurement_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="'fill' is not a mask that can be kept; known are"):
        MaskRule.keeping(["fill"])


@pytest.mark.parametrize("span", [(-1, 3), (4, 4), (3, 13)])
def test_lines_outside_the_scene(span: tuple[int, int]) -> None:
    with pytest.raises(SceneError, match="line_3: lines"):
        Disk().scene().rows(*span)


def test_a_window_carries_everything_along() -> None:
    disk = Disk()
    part = disk.scene().window(slice(1, 5), slice(2, None))
    np.testing.assert_array_equal(part.radiance, disk.radiance[:, 1:5, 2:])
    np.testing.assert_array_equal(part.flags, disk.flags[1:5, 2:])


def test_making_a_scene_does_not_copy_it() -> None:
    radiance = np.ones((3, 4, 5), np.float32)
    scene = Scene(radiance, BANDS, np.ones((4, 5), bool))
    assert scene.radiance is radiance
    assert scene.rows(1, 3).radiance.base is radiance


def test_smile_groups_cover_all_columns_once_and_stay_within_the_tolerance() -> None:
    shift = 2.0 * np.linspace(-1, 1, 101) ** 2
    smile = ColumnBands(BANDS.centres_nm[:, None] + shift, np.full((3, 101), 6.0))
    groups = list(smile.groups(0.3))
    assert [part.start for part, _ in groups] == [0, *[part.stop for part, _ in groups[:-1]]]
    assert groups[-1][0].stop == 101
    for part, bands in groups:
        inside = smile.centres_nm[:, part]
        assert np.ptp(inside, axis=1).max() <= 0.3
        np.testing.assert_allclose(bands.centres_nm, inside.mean(axis=1))
    assert all(part.stop - part.start >= 20 for part, _ in smile.groups(0.3, least_columns=20))


def test_surface_tests_tell_what_they_see() -> None:
    """Apparent reflectances of five surfaces, turned into radiance for a sun at 40 degrees."""
    from flame.scene.surface import SOLAR_IRRADIANCE

    nm = [460, 550, 640, 865, 1380, 1610, 2130]
    surfaces = {
        SceneFlag.NONE: [0.10, 0.15, 0.22, 0.30, 0.001, 0.35, 0.33],
        SceneFlag.CLOUD: [0.62, 0.62, 0.62, 0.61, 0.01, 0.5, 0.4],
        SceneFlag.SNOW: [0.20, 0.85, 0.84, 0.75, 0.01, 0.1, 0.05],
        SceneFlag.CIRRUS: [0.14, 0.19, 0.26, 0.34, 0.04, 0.36, 0.33],
        SceneFlag.WATER: [0.09, 0.06, 0.04, 0.02, 0.001, 0.01, 0.005],
    }
    rho = np.array(list(surfaces.values()), dtype=np.float32).T
    light = np.array([SOLAR_IRRADIANCE[at] for at in nm]) * np.cos(np.deg2rad(40.0)) / np.pi
    layers = {at: (row * white)[None].astype(np.float32) for at, row, white in zip(nm, rho, light, strict=True)}
    flags = surface_flags(layers, 40.0)[0]
    assert [SceneFlag(int(flag)) for flag in flags] == list(surfaces)


def test_a_flare_is_masked_with_its_rim() -> None:
    layer = np.full((9, 9), 0.4, np.float32)
    layer[4, 4] = 2.0
    flags = surface_flags({2389: layer}, None)
    assert np.count_nonzero(flags) == 25
    assert (flags[2:7, 2:7] == SceneFlag.FLARE).all()
