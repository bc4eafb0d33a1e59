import numpy as np
import pytest

from flame.errors import FlameError
from flame.products.contact_sheet import contact_sheet
from flame.simulate import preset, simulate_tile, tile_generator


@pytest.fixture(scope="module")
def tile():
    return simulate_tile(tile_generator(0, 0), preset("cluttered", size=32), "a").tile


def test_a_sheet_is_a_png_that_grows_with_its_tiles(tile, tmp_path):
    one = contact_sheet([tile], tmp_path / "one.png").stat().st_size
    many = contact_sheet([tile] * 5, tmp_path / "five.png").stat().st_size
    assert 5_000 < one < many
    assert not list(tmp_path.glob(".*"))


def test_an_empty_sheet_is_refused(tmp_path):
    with pytest.raises(FlameError, match="at least one tile"):
        contact_sheet([], tmp_path / "x.png")
    assert np.array(list(tmp_path.iterdir())).size == 0
