"""The page in a real browser: plumes, layers, pan and zoom by mouse, finger and key, on paper, and with hostile names.

Without Chromium these tests are not run, and pytest says so.
"""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from page_samples import glt_grid, sample_maps, sample_mask, sample_record, sample_report, sample_scene

from flame.products.index_page import IndexEntry, write_index_page
from flame.products.plume_section import Truth
from flame.products.scene_page import write_scene_page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: the report's browser tests are not run")

HOSTILE = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>.nc"
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # tests may run as root
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page with two plumes, the truth, and a name that tries to break out."""
    folder = tmp_path_factory.mktemp("page")
    shape = (60, 80)
    scene = sample_scene(shape, glt_grid(shape))
    maps = sample_maps(scene)
    record = sample_record(scene, maps, name=HOSTILE)
    truths = [Truth(1300.0, "Truth: 1,300 kg/h."), Truth(0.0, "a false one")]
    page = sample_report(
        HOSTILE, truth_mask=sample_mask(shape), truths=truths, files={HOSTILE: HOSTILE, "maps.nc": "maps"}
    )
    write_scene_page(folder / "report.html", scene, maps, record, page)
    (folder / "maps.nc").write_bytes(b"netcdf")
    return folder / "report.html"


@pytest.fixture
def open_page(browser):
    """Opens a page; in the end nothing may have been complained about, and nothing asked from elsewhere."""
    contexts, complaints = [], []

    def opened(path: Path, size=DESK, **options):
        context = browser.new_context(viewport=size, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda failure: complaints.append(str(failure)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def _zoom(page):
    return float(page.get_attribute("#map", "data-zoom"))


def _shown(page):
    return page.eval_on_selector_all("#stage img[data-layer]:not([hidden])", "all => all.map(i => i.dataset.layer)")


def _settled(page):
    """Waits until the map stands still; not by a script in the page, which its policy forbids."""
    page.wait_for_selector("#stage:not(.gliding)", state="attached")


def _under_pointer(page):
    """Latitude and longitude that the page shows."""
    north, west = re.fullmatch(r"([\d.]+)°\u202fN, ([\d.]+)°\u202fW", page.text_content("#where")).groups()
    return float(north), -float(west)


def test_a_click_on_a_plume_zooms_to_it(open_page, report):
    page = open_page(report)
    before = _zoom(page)
    page.click('.pick[data-plume="2"]')
    _settled(page)
    assert _zoom(page) > 2 * before
    assert page.get_attribute('.pick[data-plume="2"]', "aria-current") == "true"
    assert page.get_attribute('.pick[data-plume="1"]', "aria-current") == "false"
    assert page.evaluate("document.querySelector('path[data-plume=\"2\"]').classList.contains('current')")
    box, place = page.locator("#map").bounding_box(), page.locator('path[data-plume="2"]').bounding_box()
    assert abs(place["x"] + place["width"] / 2 - box["x"] - box["width"] / 2) < 3
    assert abs(place["y"] + place["height"] / 2 - box["y"] - box["height"] / 2) < 3
    page.click("#zoom-all")
    _settled(page)
    assert _zoom(page) == pytest.approx(before)
    page.locator('path[data-plume="1"]').click(force=True)
    assert page.get_attribute('.pick[data-plume="1"]', "aria-current") == "true"
    page.click("#zoom-all")
    _settled(page)
    page.click('.mark >> text="B"')
    assert page.get_attribute('.pick[data-plume="2"]', "aria-current") == "true"


def test_marks_stand_at_their_plumes(open_page, report):
    page = open_page(report)
    for letter, number in (("A", 1), ("B", 2)):
        mark = page.locator(f'.mark >> text="{letter}"').bounding_box()
        path = page.locator(f'path[data-plume="{number}"]').bounding_box()
        assert path["x"] - 5 < mark["x"] + mark["width"] / 2 < path["x"] + path["width"] + 5
        assert 0 < path["y"] - (mark["y"] + mark["height"]) < 12


def test_lines_keep_their_width_at_any_zoom(open_page, report):
    page = open_page(report)
    page.click('.pick[data-plume="2"]')
    _settled(page)
    width = page.eval_on_selector('path[data-plume="1"]', "p => parseFloat(getComputedStyle(p).strokeWidth)")
    assert width * _zoom(page) == pytest.approx(2.0, rel=0.01)


def test_layers_switch_with_their_legends_and_fade(open_page, report):
    page = open_page(report)
    assert set(_shown(page)) == {"enhancement"}
    for name in ("sigma", "probability", "mask", "quality", "none"):
        page.check(f'input[name="layer"][value="{name}"]', force=True)
        assert set(_shown(page)) == ({name} - {"none"})
        legends = page.eval_on_selector_all("[data-legend]:not([hidden])", "all => all.map(i => i.dataset.legend)")
        assert legends == [n for n in (name,) if n != "none"]
    page.check('input[name="layer"][value="enhancement"]', force=True)
    page.fill("#opacity", "30")
    assert page.eval_on_selector('img[data-layer="enhancement"]', "i => getComputedStyle(i).opacity") == "0.3"
    page.uncheck("#show-truth")
    assert not page.locator("#outlines path.truth").is_visible()
    page.uncheck("#show-outlines")
    assert not page.locator('path[data-plume="1"]').is_visible()
    assert not page.locator(".mark").first.is_visible()


def test_each_layer_looks_different(open_page, report):
    page = open_page(report)
    pictures = set()
    for name in ("none", "enhancement", "sigma", "probability", "mask", "quality"):
        page.check(f'input[name="layer"][value="{name}"]', force=True)
        pictures.add(page.locator("#map").screenshot())
    assert len(pictures) == 6


def test_the_wheel_zooms_at_the_pointer_and_dragging_moves(open_page, report):
    page = open_page(report)
    box = page.locator("#map").bounding_box()
    at = round(box["x"] + 0.4 * box["width"]), round(box["y"] + 0.4 * box["height"])
    page.mouse.move(*at)
    place, cell_deg = _under_pointer(page), 5.4e-4
    before = _zoom(page)
    page.mouse.wheel(0, -400)
    for _ in range(100):
        if _zoom(page) > 1.5 * before:
            break
        page.wait_for_timeout(100)
    page.mouse.move(at[0] + 1, at[1])
    page.mouse.move(*at)
    assert _zoom(page) > 1.5 * before
    assert _under_pointer(page) == pytest.approx(place, abs=0.2 * cell_deg)  # what was under the pointer still is
    page.mouse.down()
    page.mouse.move(at[0] + 80, at[1] + 30, steps=4)
    page.mouse.up()
    assert _under_pointer(page) == pytest.approx(place, abs=0.2 * cell_deg)  # and moved along with it
    assert page.get_attribute("#map", "data-plume") in (None, "")  # a drag selects nothing


def test_everything_works_from_the_keyboard(open_page, report):
    page = open_page(report)
    page.focus("#map")
    before = _zoom(page)
    page.keyboard.press("+")
    assert _zoom(page) == pytest.approx(1.5 * before, rel=1e-3)
    moved = page.eval_on_selector("#stage", "s => s.style.transform")
    page.keyboard.press("ArrowLeft")
    assert page.eval_on_selector("#stage", "s => s.style.transform") != moved
    page.keyboard.press("b")
    assert page.get_attribute('.pick[data-plume="2"]', "aria-current") == "true"
    page.keyboard.press("0")
    _settled(page)
    assert _zoom(page) == pytest.approx(before)
    assert page.get_attribute('.pick[data-plume="2"]', "aria-current") == "false"
    page.focus('input[name="layer"][value="enhancement"]')
    page.keyboard.press("ArrowRight")
    assert set(_shown(page)) == {"sigma"}
    page.focus('.pick[data-plume="1"]')
    page.keyboard.press("Enter")
    assert page.get_attribute('.pick[data-plume="1"]', "aria-current") == "true"


def test_focus_is_seen_on_everything_that_can_have_it(open_page, report):
    page = open_page(report)
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
              const e = document.activeElement;
              if (!e || e === document.body) return null;
              const shown = e.matches('.choice input') ? e.nextElementSibling : e;
              const style = getComputedStyle(shown);
              return [e.id || e.className || e.tagName, style.outlineStyle, parseFloat(style.outlineWidth)];
            }"""
        )
        if found is None:
            break
        reached.append(found)
    named = [name for name, _, _ in reached]
    assert {"map", "opacity", "zoom-in", "pick", "skip"} <= set(named)
    assert [name for name, style, width in reached if style == "none" or width < 1] == []


def test_two_fingers_zoom(open_page, report):
    page = open_page(report, PHONE, has_touch=True)
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = page.context.new_cdp_session(page)
    before = _zoom(page)

    def fingers(kind, apart):
        points = [{"x": middle[0] + side * apart, "y": middle[1], "id": at} for at, side in enumerate((-1, 1))]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points if kind != "touchEnd" else []})

    fingers("touchStart", 30)
    for apart in (40, 50, 60, 75, 90):
        fingers("touchMove", apart)
    fingers("touchEnd", 90)
    assert 2 < _zoom(page) / before < 4


def test_hostile_names_do_nothing_and_are_seen(open_page, report):
    page = open_page(report)
    assert page.evaluate("window.broken") is None
    assert page.text_content(".subject") == HOSTILE
    assert HOSTILE in page.title()
    assert page.text_content(".plume .id") == f"{HOSTILE}-A"


def test_the_policy_stops_what_is_put_in_later(browser, report, tmp_path):
    """The page's own policy forbids a script, a picture and a style that somebody adds to the file."""
    changed = tmp_path / "changed.html"
    added = '<script>window.broken = 1</script><img src="https://example.org/x.png"><p style="color:red">x</p>'
    changed.write_text(report.read_text().replace("<main>", f"<main>{added}"))
    page = browser.new_page()
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(changed.as_uri())
    page.wait_for_timeout(200)
    assert page.evaluate("window.broken") is None
    assert len([text for text in refused if "Content Security Policy" in text]) == 3
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_sticks_out_and_text_is_readable(open_page, report, size, scheme):
    page = open_page(report, size, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    ink, paper = page.evaluate(
        "() => { const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]; }"
    )
    assert _contrast(ink, paper) > 7
    soft = page.eval_on_selector(".subject", "e => getComputedStyle(e).color")
    assert _contrast(soft, paper) > 4.5


def _contrast(one, other):
    """Contrast ratio of WCAG 2."""

    def light(colour):
        parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_it_prints_on_few_pages_without_buttons(open_page, report, tmp_path):
    page = open_page(report)
    page.emulate_media(media="print")
    assert not page.locator("#zoom-in").is_visible()
    assert not page.locator("#opacity").is_visible()
    assert page.locator("#plume-A .numbers").first.is_visible()
    page.pdf(path=tmp_path / "r.pdf", format="A4", print_background=False)
    sheets = (tmp_path / "r.pdf").read_bytes().count(b"/Type /Page\n")
    assert 1 <= sheets <= 4


def test_it_says_the_essential_without_a_script(browser, report):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(report.as_uri())
    assert "2 methane plumes, the strongest 1,230 ± 310 kg/h" in page.text_content("h1")
    assert page.locator("#ground").is_visible()
    assert page.locator("#plume-A .plot").first.is_visible()
    page.context.close()


def test_links_lead_to_the_files(open_page, report):
    page = open_page(report)
    with page.expect_download() as got:
        page.click('a[href="./maps.nc"]')
    assert got.value.suggested_filename == "maps.nc"


def test_the_index_leads_to_the_scene(open_page, report, tmp_path):
    folder = tmp_path / "a #b%20"
    folder.mkdir()
    shutil.copy(report, folder / "report.html")
    facts = {"time": None, "sensor": None, "rows": 2, "columns": 3, "usable_pixels": 5}
    entries = [IndexEntry(HOSTILE, f"{folder.name}/report.html", facts, [{"plume_id": "x-A", "mass_kg": 3.0}])]
    write_index_page(tmp_path / "report.html", "Methane plumes", "1 plume in 1 scene.", entries, {}, "flame")
    page = open_page(tmp_path / "report.html", PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.click("tbody a >> nth=0")
    page.wait_for_selector("#map")
