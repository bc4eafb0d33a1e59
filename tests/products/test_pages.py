"""Quick look and report: readable without anything else, and unable to carry markup from a file name."""

import numpy as np
from flame.products.report import ReportSection, write_report
from rasterio.io import MemoryFile

from flame.detection import find_plumes
from flame.products.quicklook import plot_quicklook, stretched_rgb
from flame.scene import BandSet, GeoGrid, Scene


def _scene(rgb=True):
    rng = np.random.default_rng(0)
    bands = BandSet(np.array([2200.0, 2300.0]), np.full(2, 6.0))
    colour = rng.gamma(9, 1, (3, 40, 60)).astype(np.float32) if rgb else None
    valid = np.ones((40, 60), dtype=bool)
    valid[:, :4] = False
    geo = GeoGrid(crs="EPSG:32613", affine=(5.0, 0.0, 600_000.0, 0.0, -5.0, 3_560_000.0))
    return Scene(rng.gamma(9, 0.1, (2, 40, 60)).astype(np.float32), bands, valid, colour, geo)


def test_colours_are_stretched_over_valid_pixels_only():
    scene = _scene()
    scene.rgb[:, ~scene.valid] = 1e9
    colours = stretched_rgb(scene)
    assert colours.min() >= 0
    assert colours.max() <= 1
    assert (colours[~scene.valid] < 0.1).all()
    assert colours[scene.valid].std() > 0.1


def test_the_picture_shows_plumes_and_does_not_without(tmp_path):
    scene = _scene()
    mask = np.zeros(scene.shape, dtype=bool)
    for name, plumes_in in (("none", False), ("some", True)):
        mask[10:20, 20:40] = plumes_in
        score = np.where(mask, 900.0, 0.0)
        plumes = find_plumes(mask, score / 1000, score)
        plot_quicklook(tmp_path / f"{name}.png", scene, score, mask, plumes, "title", dpi=50)
    with MemoryFile((tmp_path / "some.png").read_bytes()) as m, m.open() as f:
        some = f.read()
    with MemoryFile((tmp_path / "none.png").read_bytes()) as m, m.open() as f:
        none = f.read()
    assert some.shape == none.shape
    assert (some != none).any(axis=0).mean() > 0.01
    plot_quicklook(tmp_path / "grey.png", _scene(rgb=False), score, mask, plumes, "title", dpi=50)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["grey.png", "none.png", "some.png"]


def test_the_report_holds_everything_and_escapes_it(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    sections = [
        ReportSection("<script>x</script>", {"sensor": "aviris-ng"}, tmp_path / "a.png", [{"plume": 1, "peak": 2.5}]),
        ReportSection("empty"),
        ReportSection("bad", failure="no <such> file"),
    ]
    write_report(tmp_path / "report.html", "Title & more", "3 scenes", sections, "made by flame")
    page = (tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;x" in page
    assert "data:image/png;base64,iVBORw==" in page
    assert "No plume found." in page
    assert "no &lt;such&gt; file" in page
    assert "http" not in page
