"""Plumes as GeoJSON and CSV, under FLAME's names and those of other products, one scene or many."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from page_samples import UTM, sample_maps, sample_record, sample_scene

from flame.files import WriteError
from flame.physics import Wind
from flame.plumes import UnitRate
from flame.products.fields import FIELD_SETS, field_columns, named_properties
from flame.products.geojson import read_features, write_records
from flame.products.tables import COLUMNS, renamed_features, write_csv, write_features
from flame.records import RecordError

EXTRA = {
    "source": "=cmd|x.nc",
    "sensor": "emit",
    "time": "2024-05-17T18:03:21+00:00",
    "model": "m",
    "software": "flame",
}


@pytest.fixture
def features(tmp_path):
    scene = sample_scene()
    record = sample_record(scene, sample_maps(scene))
    write_records(tmp_path / "p.geojson", record.plumes, UTM, EXTRA)
    return read_features(tmp_path / "p.geojson")


def _rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_plume_that_could_not_be_weighed_has_no_mass_in_any_file(tmp_path):
    """Its notes say so: a plain sum over its pixels must not stand where the mass would."""
    scene = sample_scene()
    first, *_ = sample_record(scene, sample_maps(scene)).plumes
    unweighed = replace(first, figures=None, shape=None, rates=(), unit_rate=None)
    write_records(tmp_path / "p.geojson", [first, unweighed], UTM, EXTRA)
    weighed, other = (feature["properties"] for feature in read_features(tmp_path / "p.geojson"))
    assert {"mass_kg", "mass_sigma_kg", "area_m2"} <= weighed.keys()
    assert not {"mass_kg", "mass_sigma_kg", "area_m2", "light_path_factor"} & other.keys()
    assert other["peak_longitude"] == weighed["peak_longitude"]


def test_the_first_rate_stands_by_itself(features):
    own = features[0]["properties"]
    assert (own["rate_kg_h"], own["rate_sigma_kg_h"], own["rate_method"]) == (1234.5, 310.2, "ime")
    assert (own["wind_m_s"], own["wind_from_deg"], own["wind_source"]) == (4.2, 250.0, "a mast near by")
    assert [rate["method"] for rate in own["rates"]] == ["ime", "fetch"]


def test_the_table_says_what_the_geojson_says(features, tmp_path):
    assert write_csv(tmp_path / "p.csv", features) == 2
    rows = _rows(tmp_path / "p.csv")
    assert tuple(rows[0]) == COLUMNS
    for row, feature in zip(rows, features, strict=True):
        for name in ("mass_kg", "mass_sigma_kg", "rate_kg_h", "area_m2", "source_longitude", "peak_ppm_m"):
            assert float(row[name]) == feature["properties"][name]
    assert rows[1]["spectral_p_value"] == ""  # it was not checked
    assert rows[1]["notes"] == "the plume reaches the edge of what could be seen"


def test_a_calm_and_the_law_of_a_rate_stand_in_the_files(tmp_path):
    scene = sample_scene()
    first, *_ = sample_record(scene, sample_maps(scene), wind=Wind(0.5, 270.0, source="mast", note="no unit")).plumes
    calm = replace(first, rates=tuple(replace(rate, note="nearly calm: trust the mass") for rate in first.rates))
    calm = replace(calm, unit_rate=UnitRate(290.0, 25.0, 31.0, "fetch", "flame"))
    write_records(tmp_path / "p.geojson", [calm], UTM, EXTRA)
    (feature,) = read_features(tmp_path / "p.geojson")
    own = feature["properties"]
    words = ["wind of 0.5 m/s (mast): nearly calm: trust the mass", "wind of 0.5 m/s (mast): no unit"]
    assert own["notes"] == words
    assert (own["kg_h_per_m_s"], own["sigma_kg_h_per_m_s"], own["kg_h_offset"]) == (290.0, 25.0, 31.0)
    assert own["kg_h_per_m_s_basis"].startswith("rate by fetch = kg_h_per_m_s * (wind at 10 m in m/s) + kg_h_offset")
    write_csv(tmp_path / "p.csv", [feature])
    (row,) = _rows(tmp_path / "p.csv")
    assert row["notes"] == "; ".join(words)
    assert row["kg_h_offset"] == "31.0"


def test_every_column_is_a_property_of_some_plume(features):
    named = {name for feature in features for name in feature["properties"]}
    assert set(COLUMNS) <= named


def test_a_spreadsheet_takes_no_name_for_a_formula(features, tmp_path):
    write_csv(tmp_path / "p.csv", features)
    assert _rows(tmp_path / "p.csv")[0]["source"] == "'=cmd|x.nc"
    bad = {"properties": {"a": "@x", "b": -5.0, "c": float("nan"), "d": "+1"}}
    write_csv(tmp_path / "b.csv", [bad], "abcd")
    assert (tmp_path / "b.csv").read_text() == "a,b,c,d\n'@x,-5.0,,'+1\n"


def test_a_table_without_plumes_still_has_its_columns(tmp_path):
    assert write_csv(tmp_path / "p.csv", []) == 0
    assert (tmp_path / "p.csv").read_text().strip().split(",") == list(COLUMNS)


def test_emit_names(features):
    """Names as in EMIT L2B CH4PLM (field guide), its rate being mass over fetch."""
    named = named_properties("emit", features[0])
    assert list(named) == [
        "Plume ID",
        "DAAC Scene Names",
        "UTC Time Observed",
        "Max Plume Concentration (ppm m)",
        "Latitude of max concentration",
        "Longitude of max concentration",
        "Wind Speed (m/s)",
        "Wind Speed Std (m/s)",
        "Wind Speed Source",
        "Emissions Rate Estimate (kg/hr)",
        "Emissions Rate Estimate Uncertainty (kg/hr)",
        "Fetch Length (m)",
    ]
    assert named["Emissions Rate Estimate (kg/hr)"] == 1180.0
    assert named["Fetch Length (m)"] == 171.0


def test_what_emit_has_not_is_na():
    scene = sample_scene(geo=None)
    record = sample_record(scene, sample_maps(scene), wind=None)
    named = named_properties("emit", {"geometry": None, "properties": {"plume_id": record.plumes[0].id, "rates": []}})
    assert named["Emissions Rate Estimate (kg/hr)"] == "NA"
    assert named["Latitude of max concentration"] == "NA"


def test_carbon_mapper_names(features):
    named = named_properties("carbonmapper", features[1])
    assert named["plume_id"] == "emi20240517t180321-B"
    assert (named["emission_auto"], named["emission_uncertainty_auto"]) == (617.25, 310.2)
    assert (named["gas"], named["platform"], named["instrument"]) == ("CH4", "ISS", "emi")
    ring = np.array(features[1]["geometry"]["coordinates"][0])
    assert named["plume_bounds"] == [*ring.min(axis=0), *ring.max(axis=0)]
    assert (named["plume_longitude"], named["plume_latitude"]) == (-103.9, 32.1)


@pytest.mark.parametrize("fields", FIELD_SETS)
def test_other_names_are_files_too(fields, features, tmp_path):
    assert write_features(tmp_path / "p.geojson", renamed_features(features, fields)) == 2
    write_csv(tmp_path / "p.csv", renamed_features(features, fields), field_columns(fields))
    read = json.loads((tmp_path / "p.geojson").read_text())
    assert read["features"][0]["geometry"] == features[0]["geometry"]
    assert list(_rows(tmp_path / "p.csv")[0]) == list(read["features"][0]["properties"])
    write_csv(tmp_path / "none.csv", [], field_columns(fields))
    with (tmp_path / "none.csv").open(newline="") as file:  # a table without plumes has its columns too
        assert next(csv.reader(file)) == list(read["features"][0]["properties"])


def test_bounds_over_the_date_line_are_as_wide_as_the_plume():
    west, east = (
        [[[lon, 10.0], [edge, 10.0], [edge, 11.0], [lon, 10.0]]] for lon, edge in ((179.5, 180.0), (-179.8, -180.0))
    )
    feature = {"geometry": {"type": "MultiPolygon", "coordinates": [west, east]}, "properties": {}}
    assert named_properties("carbonmapper", feature)["plume_bounds"] == [179.5, 10.0, -179.8, 11.0]


def test_many_scenes_are_written_one_by_one(features, tmp_path):
    """Nothing is gathered before it is written: a thousand scenes need no more memory than one."""
    held = []

    def scenes():
        for _ in range(50):
            yield from features
            held.append((tmp_path / "all.geojson").exists())

    assert write_features(tmp_path / "all.geojson", scenes()) == 100
    assert not any(held)
    assert len(json.loads((tmp_path / "all.geojson").read_text())["features"]) == 100


def test_a_failed_scene_leaves_no_half_a_file(features, tmp_path):
    def broken():
        yield features[0]
        raise WriteError("no space")

    with pytest.raises(WriteError):
        write_features(tmp_path / "all.geojson", broken())
    assert list(tmp_path.glob("*all*")) == []


@pytest.mark.parametrize("text", ["[]", '{"features": 3}', '{"features": [{"properties": 1}]}', "x"])
def test_damaged_plumes_are_refused(text, tmp_path):
    (tmp_path / "p.geojson").write_text(text)
    with pytest.raises(RecordError):
        read_features(tmp_path / "p.geojson")
