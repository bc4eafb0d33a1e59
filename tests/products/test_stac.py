"""STAC items and collections: valid by pystac without a network, and telling the scene's true place and files."""

import json

import numpy as np
import pystac
import pytest
from page_samples import TIME, UTM, glt_grid, sample_scene
from pystac.errors import STACValidationError
from pystac.extensions.projection import ProjectionExtension
from pystac.extensions.view import ViewExtension
from pystac.validation import validate_dict

from flame.products.footprint import footprint
from flame.products.geolocate import longitude_latitude
from flame.products.map_view import MapView
from flame.products.stac import COLLECTION, ITEM, ItemFacts, write_collection, write_item
from flame.scene import Acquisition, GeoGrid

SHAPE = (60, 80)
FACTS = ItemFacts(
    "flight",
    "flight <x>.img",
    "flame 0.2.0",
    {"enhancement.tif": "a map", "quality.tif": "another", "plumes.geojson": "plumes", "report.html": "page"},
    {"plumes": 2},
)


def _item(tmp_path, geo, in_batch=True, name="flight"):
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    scene = sample_scene(SHAPE, geo)
    assert write_item(folder / ITEM, FACTS, MapView.of(geo, SHAPE), scene.acquisition, in_batch)
    return json.loads((folder / ITEM).read_text())


def _validate(content):
    """By the schemas that pystac carries; those of extensions would be fetched from the network."""
    assert validate_dict(content, extensions=[])


GRIDS = {"map grid": UTM, "look-up table": glt_grid(SHAPE), "nowhere": None}


@pytest.mark.parametrize("kind", GRIDS)
def test_items_are_valid(kind, tmp_path):
    item = _item(tmp_path, GRIDS[kind])
    _validate(item)
    read = pystac.Item.from_dict(item)
    assert read.datetime == TIME
    assert read.properties["flame:plumes"] == 2
    assert read.assets["enhancement"].media_type == pystac.MediaType.COG
    assert read.assets["enhancement"].extra_fields["bands"][0]["unit"] == "ppm m"
    assert [band["name"] for band in read.assets["quality"].extra_fields["bands"]] == ["quality", "scene_flags"]
    assert ViewExtension.ext(read).sun_elevation == 55.0
    projection = ProjectionExtension.ext(read)
    view = MapView.of(GRIDS[kind], SHAPE)
    assert projection.shape == list(view.shape)
    assert projection.code == view.grid.crs
    if view.placed:
        assert projection.transform == list(view.grid.affine)


def test_the_validator_does_find_mistakes(tmp_path):
    item = _item(tmp_path, UTM)
    del item["properties"]["datetime"]
    with pytest.raises(STACValidationError):
        _validate(item)


def test_the_footprint_holds_the_scene():
    geo = glt_grid(SHAPE)
    geometry, (west, south, east, north) = footprint(geo, SHAPE)
    ring = np.array(geometry["coordinates"][0])
    corners = np.array([[0.0, 0.0], [60.0, 0.0], [60.0, 80.0], [0.0, 80.0]])
    lon, lat = longitude_latitude(geo, corners[:, 0], corners[:, 1])
    for at in zip(lon, lat, strict=True):
        assert np.abs(ring - at).max(axis=1).min() < 1e-6
    assert (west, east) == (pytest.approx(lon.min(), abs=1e-6), pytest.approx(lon.max(), abs=1e-6))
    assert (south, north) == (pytest.approx(lat.min(), abs=1e-6), pytest.approx(lat.max(), abs=1e-6))


def test_a_box_over_the_date_line_begins_in_the_west():
    r, c = np.mgrid[0:30, 0:40] + 0.5
    lon = (179.9 + 5e-3 * c + 180) % 360 - 180
    geometry, (west, _, east, _) = footprint(GeoGrid(latitude_deg=-17.0 - 5e-3 * r, longitude_deg=lon), (30, 40))
    assert geometry["type"] == "MultiPolygon"
    assert west == pytest.approx(179.9, abs=1e-6)
    assert east == pytest.approx(-179.9, abs=1e-6)


def test_positions_that_are_known_in_part_give_their_box():
    geo = glt_grid(SHAPE)
    geo.latitude_deg[:10] = np.nan
    _, (west, south, east, north) = footprint(geo, SHAPE)
    assert south == pytest.approx(np.nanmin(geo.latitude_deg), abs=1e-6)
    assert west < east
    assert north < 32.0
    geo.latitude_deg[:] = np.nan
    assert footprint(geo, SHAPE) is None


def test_a_scene_without_time_has_no_item(tmp_path):
    (tmp_path / ITEM).write_text("{}")  # of an earlier run
    assert not write_item(tmp_path / ITEM, FACTS, MapView.of(UTM, SHAPE), Acquisition(), True)
    assert not (tmp_path / ITEM).exists()


def test_the_collection_leads_to_its_items(tmp_path):
    items = [
        (f"./{name}/{ITEM}", _item(tmp_path, geo, name=name)) for name, geo in (("a", UTM), ("b", glt_grid(SHAPE)))
    ]
    assert write_collection(tmp_path / COLLECTION, iter(items), "flame 0.2.0")
    content = json.loads((tmp_path / COLLECTION).read_text())
    _validate(content)
    collection = pystac.Collection.from_file(str(tmp_path / COLLECTION))
    assert sorted(item.id for item in collection.get_items()) == ["flight", "flight"]
    assert all(item.get_collection().id == collection.id for item in collection.get_items())
    whole, *boxes = collection.extent.spatial.bboxes
    assert whole == [
        min(b[0] for b in boxes),
        min(b[1] for b in boxes),
        max(b[2] for b in boxes),
        max(b[3] for b in boxes),
    ]


def test_no_items_no_collection(tmp_path):
    assert not write_collection(tmp_path / COLLECTION, iter([]), "flame")
    assert not (tmp_path / COLLECTION).exists()
