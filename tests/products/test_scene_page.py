"""The page of a scene as text: whole without anything else, unable to carry markup, and small."""

import base64
import hashlib
import html
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from page_samples import UTM, glt_grid, sample_maps, sample_mask, sample_record, sample_report, sample_scene
from PIL import Image

from flame.physics import Wind
from flame.plumes import UnitRate
from flame.products.geolocate import map_grid
from flame.products.index_page import IndexEntry, write_index_page
from flame.products.layers import SceneMaps
from flame.products.map_view import MapView
from flame.products.pictures import Scales, overview
from flame.products.plume_section import Truth
from flame.products.quicklook import stretched_rgb
from flame.products.scene_page import MOST_DETAILED, write_scene_page
from flame.scene import GeoGrid

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&.nc"


def _page(tmp_path, geo=UTM, wind=True, shape=(60, 80), **changes):
    scene = sample_scene(shape, geo)
    maps = sample_maps(scene)
    record = sample_record(scene, maps, **({} if wind else {"wind": None}))
    write_scene_page(tmp_path / "report.html", scene, maps, record, sample_report(**changes))
    return (tmp_path / "report.html").read_text()


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def _tags(page):
    parser = _Tags()
    parser.feed(page)
    return parser.seen


def test_nothing_is_asked_from_elsewhere(tmp_path):
    page = _page(tmp_path)
    for tag, attributes in _tags(page):
        for name in ("src", "href", "action", "data", "poster"):
            target = attributes.get(name)
            assert target is None or target.startswith(("data:image/", "#", "./")), (tag, target)
    assert not re.findall(r"https?://|url\(|@import", re.sub(r"base64,[\w+/=]*", "", page))


def test_the_policy_names_this_very_script_and_style(tmp_path):
    page = _page(tmp_path)
    (policy,) = [
        a["content"] for t, a in _tags(page) if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not [a for _, a in _tags(page) if "style" in a or any(name.startswith("on") for name in a)]


def test_names_of_files_are_text_and_nothing_else(tmp_path):
    pair = {HOSTILE: HOSTILE}
    page = _page(tmp_path, source=HOSTILE, facts=pair, limits=[HOSTILE], made=pair, files=pair)
    plain = _page(tmp_path)
    count = [[tag for tag, _ in _tags(text)].count("script") for text in (page, plain)]
    assert count[0] == count[1] == 2
    assert html.escape(HOSTILE, quote=False).replace("'", "&#x27;")[:20] in page
    assert not [a for _, a in _tags(page) if "onerror" in a]
    (link,) = [a["href"] for t, a in _tags(page) if t == "a" and "script" in a.get("href", "")]
    assert link.startswith("./%3C/script%3E%3Cscript")


def test_data_for_the_script_cannot_end_it(tmp_path):
    scene = sample_scene()
    maps = sample_maps(scene)
    record = sample_record(scene, maps, name="</script><script>alert(1)//")
    write_scene_page(tmp_path / "report.html", scene, maps, record, sample_report())
    page = (tmp_path / "report.html").read_text()
    (facts,) = re.findall(r'id="scene">(.*?)</script>', page, re.DOTALL)
    assert json.loads(facts)["plumes"][0]["id"] == "</script><script>alert(1)//-A"


def test_the_page_says_the_numbers_with_their_sigmas(tmp_path):
    page = _page(tmp_path)
    assert "2 methane plumes, the strongest 1,230 ± 310 kg/h" in page
    for words in ("41.2 ± 3.4 kg", "290 ± 25 kg/h", "32.10000°", "2,300 ± 180 ppm m", "p ≤ 0.003", "a mast near by"):
        assert words in page, words
    assert "What this scene could have shown" in page
    assert "340 kg/h" in page
    assert "spectrum not checked" in page
    assert "spectrum agrees with methane" in page


def test_the_headline_is_of_the_highest_rate_not_of_the_most_mass(tmp_path):
    scene = sample_scene()
    maps = sample_maps(scene)
    record = sample_record(scene, maps)
    first, second = record.plumes
    stronger = replace(first.rates[0], kg_h=5000.0)
    record = replace(record, plumes=(first, replace(second, rates=(stronger,))))
    write_scene_page(tmp_path / "report.html", scene, maps, record, sample_report())
    assert "2 methane plumes, the strongest 5,000 ±" in (tmp_path / "report.html").read_text()


def test_a_calm_and_the_law_of_a_rate_stand_beside_the_numbers(tmp_path):
    scene = sample_scene((60, 80), UTM)
    maps = sample_maps(scene)
    record = sample_record(scene, maps, wind=Wind(0.5, 250.0))
    first = record.plumes[0]
    rates = tuple(replace(rate, note="nearly calm: trust the mass") for rate in first.rates)
    calm = replace(first, rates=rates, unit_rate=UnitRate(290.0, 25.0, 31.0, "fetch", "flame"))
    write_scene_page(tmp_path / "r.html", scene, maps, replace(record, plumes=(calm,)), sample_report())
    page = (tmp_path / "r.html").read_text()
    assert "± is one standard deviation. Nearly calm: trust the mass</p>" in page
    assert page.count("kg/h; nearly calm: trust the mass</td>") == 2  # by every method
    assert '<span class="less">41.2 ± 3.4 kg, nearly calm' in page
    assert "of wind at 10 m, by mass over fetch; ± without the wind&#x27;s error</th><td>290 ± 25 kg/h</td>" in page
    assert "plus, in any wind</th><td>31 kg/h</td>" in page


def test_without_wind_or_place_it_says_so(tmp_path):
    assert "no rate without a wind" in _page(tmp_path, wind=False)
    page = _page(tmp_path, geo=None)
    assert "so there is no mass" in page
    (facts,) = re.findall(r'id="scene">(.*?)</script>', page, re.DOTALL)
    assert json.loads(facts)["nodes"] is None
    assert json.loads(facts)["cell_m"] is None


def test_the_truth_stands_beside_what_was_found(tmp_path):
    truths = [Truth(1300.0, "Truth: 1,300 kg/h."), Truth(0.0, "a false one")]
    page = _page(
        tmp_path, truth_mask=sample_mask((60, 80)), truths=truths, truth_rows=[("source 1", "1,300 kg/h", "A")]
    )
    assert "The truth beside what was found" in page
    assert "Truth: 1,300 kg/h." in page
    assert 'class="truth"' in page


def test_a_scene_without_plumes_still_has_its_map(tmp_path):
    scene = sample_scene()
    maps = sample_maps(scene)
    maps.mask[:] = False
    record = sample_record(scene, maps)
    assert not record.plumes
    write_scene_page(tmp_path / "report.html", scene, maps, record, sample_report())
    page = (tmp_path / "report.html").read_text()
    assert "No methane plume found" in page
    assert 'data-layer="enhancement"' in page


def test_a_scene_of_which_nothing_was_judged_is_not_called_free_of_plumes(tmp_path):
    scene = sample_scene()
    maps = sample_maps(scene)
    maps.mask[:] = False
    maps.usable[:] = False
    write_scene_page(tmp_path / "report.html", scene, maps, sample_record(scene, maps), sample_report())
    page = (tmp_path / "report.html").read_text()
    assert "<title>Not judged: no pixel could be used" in page
    assert "No methane plume found" not in page


def test_outlines_lie_on_the_map_where_the_mask_does(tmp_path):
    """On the look-up table's map, the cells that show plume pixels are those inside the drawn outline."""
    from rasterio.features import rasterize

    shape = (60, 80)
    geo = glt_grid(shape)
    scene = sample_scene(shape, geo)
    maps = sample_maps(scene)
    view = MapView.of(geo, shape)
    rings = view.rings(sample_record(scene, maps).plumes[0].plume.polygons)
    shapes = [{"type": "Polygon", "coordinates": [r[:, ::-1].tolist() + r[:1, ::-1].tolist()]} for r in rings]
    drawn = rasterize(shapes, view.shape)
    first = np.zeros(shape, bool)
    first[20:32, 30:62] = True
    expected = map_grid(geo).shown(first)
    both = (drawn > 0) & expected
    assert both.sum() > 0.9 * expected.sum()
    assert both.sum() > 0.9 * (drawn > 0).sum()


@pytest.mark.parametrize("shape", [(30, 900), (900, 30)])
def test_a_long_strip_keeps_its_pixels(shape):
    wide = np.zeros(shape, np.float32)
    maps = SceneMaps(wide, wide, wide > 0, wide == 0, np.zeros(shape, np.uint8))
    view = MapView.of(None, shape)
    pictures = overview(view, np.zeros((*shape, 3), np.float32), maps, Scales.of(maps))
    assert pictures.step == 1
    assert pictures.size == (shape[1], shape[0])


def test_a_whole_satellite_scene_is_a_small_page(tmp_path):
    """1280 x 1242 pixels of noise, which no format packs well, on a turned map."""
    shape = (1280, 1242)
    rng = np.random.default_rng(0)
    side = 5.4e-4
    turn = np.deg2rad(15.0)
    affine = (side * np.cos(turn), side * np.sin(turn), 10.0, side * np.sin(turn), -side * np.cos(turn), 40.0)
    scene = sample_scene(shape, GeoGrid(crs="EPSG:4326", affine=affine))
    maps = sample_maps(scene)
    maps.probability[:] = np.maximum(maps.probability, rng.beta(0.3, 8, shape))
    record = sample_record(scene, maps)
    write_scene_page(tmp_path / "report.html", scene, maps, record, sample_report())
    assert (tmp_path / "report.html").stat().st_size < 5e6


def test_coarse_pictures_keep_thin_plumes_and_mean_values():
    shape = (1600, 1600)
    maps = sample_maps(sample_scene(shape))
    maps.mask[:] = False
    maps.mask[801, 5:9] = True
    view = MapView.of(None, shape)
    found = overview(view, stretched_rgb(sample_scene(shape)), maps, Scales.of(maps))
    assert found.step == 2
    picture = np.asarray(Image.open(io.BytesIO(found.layers["mask"])))
    assert (picture[400, 2:5] == 1).all()
    assert (picture == 1).sum() == 3


def test_many_plumes_have_a_list_and_the_strongest_a_part_each(tmp_path):
    scene = sample_scene((300, 300))
    maps = sample_maps(scene)
    maps.mask[:] = False
    maps.mask[10::20, 10::20] = True
    record = sample_record(scene, maps)
    write_scene_page(tmp_path / "report.html", scene, maps, record, sample_report())
    page = (tmp_path / "report.html").read_text()
    assert page.count("<article") == MOST_DETAILED
    assert page.count('class="pick"') == len(record.plumes) > MOST_DETAILED


def test_the_index_leads_to_every_scene_and_says_what_failed(tmp_path):
    facts = {"time": None, "sensor": None, "rows": 2, "columns": 3, "usable_pixels": 5}
    plume = {"plume_id": "x-A", "rate_kg_h": 1234.5, "rate_sigma_kg_h": 310.2, "wind_m_s": 0.9, "spectral_p_value": 0.1}
    weak = {"plume_id": "y-A", "mass_kg": 3.0, "mass_sigma_kg": 1.0}
    entries = [
        IndexEntry("y.nc", "y/report.html", facts, [weak]),
        IndexEntry(HOSTILE, "x #1/report.html", facts, [plume]),
        IndexEntry("bad", failure="no <such> file"),
    ]
    write_index_page(tmp_path / "i.html", "Plumes & more", "3 inputs", entries, {"plumes.csv": "all"}, "flame")
    page = (tmp_path / "i.html").read_text()
    assert "<script" not in page
    assert "no &lt;such&gt; file" in page
    assert './x%20%231/report.html"' in page
    assert page.index("x-A") < page.index("y-A")  # by rate, not by order
    assert page.count("1,230 ± 310 kg/h, nearly calm") == 2  # by scene and by plume
