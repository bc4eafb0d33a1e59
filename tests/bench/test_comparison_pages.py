"""Tables and figures of the comparison come from the kept files alone and say what they hold."""

import json
from pathlib import Path

import numpy as np
import pytest
from comparison_records import made_up, make_up_run
from PIL import Image

from flame.bench.comparison.experiments import EXPERIMENTS, _tables, published
from flame.bench.comparison.methods import METHODS, UnknownMethodError, chosen_methods, recipe_of
from flame.bench.comparison.pages import render_experiment, write_page
from flame.bench.comparison.panels import overlay
from flame.bench.comparison.records import RecordError, Records
from flame.bench.comparison.scales import SCALES, UnknownScaleError, scale_named
from flame.bench.comparison.tables import NOT_RUN, method_table, order_of, order_words, rules_table
from flame.models.networks import NETWORKS, NetworkSettings
from flame.training.recipes import RECIPES

ROOT = Path(__file__).parents[2]
SOME = {
    "mag1c": 0.30,
    "mag1c-sas": 0.28,
    "noise-aware-mf": 0.5,
    "unet-mag1c-sas": 0.45,
    "segformer-cu": 0.5,
    "flame": 0.6,
}
SCORES = {"flame-no-score": 0.4, "flame-fixed": 0.5, "flame-weights": 0.55}


@pytest.fixture
def records(tmp_path):
    return made_up(tmp_path / "out" / "tiny", SOME | SCORES)


def cells(table, title):
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {title} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_every_row_of_the_papers_tables_is_a_method_and_stands_beside_it(records):
    for experiment in ("main", "backbones", "components", "ablation"):
        keys = {method.key for method in chosen_methods(experiment)}
        assert set(_tables()[experiment]) <= keys
    for name, entry in NETWORKS.items():
        paper = published("main", name)
        assert (paper or {}).get("parameters") == entry.published_parameters
    table = method_table(records, METHODS.values(), "main")
    assert cells(table, "MAG1C-tile")[:2] == ["0.300", "0.300"]
    assert cells(table, "UNet+MAG1C-SAS")[:2] == ["0.450", "0.441 ± 0.020"]


def test_what_was_not_run_is_said_and_nothing_is_left_out(records):
    table = method_table(records, METHODS.values(), "main")
    widths = {line.count("|") for line in table.splitlines()}
    assert widths == {13}, "every row has every cell"
    for key, method in METHODS.items():
        rows = [line for line in table.splitlines() if line.startswith(f"| {method.title} |")]
        assert rows, key
        if key not in SOME | SCORES:
            assert any(NOT_RUN in row for row in rows), key
    assert cells(table, METHODS["noise-aware-mf"].title)[0] == "–", (
        "it has no threshold that was not chosen on the tiles"
    )
    assert cells(rules_table(records, METHODS.values()), "ACE")[0] == NOT_RUN


def test_seeds_are_averaged(records):
    make_up_run(records, "flame", 0.8, seed=1)
    row = cells(method_table(records, METHODS.values(), "main"), "FLAME")
    assert row[0] == "0.700 ± 0.141"
    assert row[-1] == "2"


@pytest.mark.parametrize(("turned", "expected"), [(1, 1.0), (-1, -1.0)])
def test_the_rank_correlation_is_one_for_the_papers_order_and_minus_one_for_its_reverse(turned, expected, tmp_path):
    keys = ("mag1c", "ace-additive", "unet", "segformer-cu", "flame")
    records = made_up(tmp_path, {key: 0.5 + turned * 0.5 * published("main", key)["f1"] for key in keys})
    order = order_of(records, chosen_methods("main"), "main")
    assert order.correlation == pytest.approx(expected)
    words = order_words(order, METHODS)
    assert f"**{expected:.2f}**" in words
    assert ("as in the paper" in words) == (turned == 1)
    assert ("No method moved" in words) == (turned == 1)


def test_pages_are_drawn_from_the_kept_files_alone(records, tmp_path):
    """They are copied to a place where nothing else is; the same files give the same pages."""
    shown = {name: render_experiment(name, records) for name in EXPERIMENTS}
    first = write_page(tmp_path / "out", tmp_path / "docs" / "results.md")
    for file in sorted(records.folder.rglob("*.*")):
        if file.suffix in (".json", ".npz"):
            copy = tmp_path / "copy" / "out" / "tiny" / file.relative_to(records.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    elsewhere = Records(tmp_path / "copy" / "out" / "tiny")
    assert {name: render_experiment(name, elsewhere) for name in EXPERIMENTS} == shown
    assert write_page(tmp_path / "copy" / "out", tmp_path / "copy" / "docs" / "results.md") == first
    pictures = sorted((tmp_path / "docs" / "images").glob("*.png"))
    assert len(pictures) == 9
    for picture in pictures:
        assert f"images/{picture.name}" in first
        pixels = np.asarray(Image.open(picture).convert("RGB"))
        assert min(pixels.shape[:2]) > 200
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50, "something is drawn"


def test_an_empty_folder_gives_pages_that_say_so(tmp_path):
    for name in EXPERIMENTS:
        text = render_experiment(name, Records(tmp_path / "tiny"))
        assert "Nothing has been run yet" in text
        assert NOT_RUN in text or "Not measured yet" in text or ": not run yet" in text
    assert not list(tmp_path.rglob("*.png"))


def test_masks_are_green_where_found_blue_where_false_and_red_where_missed(records):
    panel = records.panels()[0]
    mask = np.roll(panel.label, 4, axis=1)
    picture = overlay(panel, mask)
    for pixels, strongest in ((mask & panel.label, 1), (mask & ~panel.label, 2), (~mask & panel.label, 0)):
        assert pixels.any()
        assert (picture[pixels].argmax(1) == strongest).all()
    ground = ~mask & ~panel.label
    np.testing.assert_allclose(picture[ground], 0.45 * panel.rgb.transpose(1, 2, 0)[ground], atol=1e-6)


def test_kept_tiles_and_runs_come_back_as_they_were(records):
    assert [panel.kind for panel in records.panels()] == ["strong", "less strong", "middle", "weak", "empty"]
    assert records.maps("nothing") is None
    with pytest.raises(RecordError, match="runs on other tiles"):
        records.take_data({"source": "others", "train": 16, "test": 8})
    records.run_file("flame", 0).write_text('{"method": ')
    with pytest.raises(RecordError, match=r"flame-seed0\.json: cannot be read"):
        records.runs()


@pytest.mark.parametrize("key", [key for key, method in METHODS.items() if method.filtered is None])
def test_every_method_is_trained_as_flame_is_but_for_its_learning_rate(key):
    scale, method = SCALES["small"], METHODS[key]
    chosen = recipe_of(method, scale)
    assert (chosen.epochs, chosen.batch.size, chosen.batch.crop) == (scale.epochs, scale.batch, None)
    if method.network is not None:
        entry = NETWORKS[method.network]
        assert isinstance(chosen.model, NetworkSettings)
        assert chosen.model.inputs == (entry.conditioned if method.conditioned else ())
        assert chosen.optimizer.rate == entry.rate
    if chosen.loss.teacher == "mag1c_sas":
        half_an_epoch = 0.5 / chosen.epochs  # epochs are whole
        assert chosen.loss.teacher_epochs / chosen.epochs == pytest.approx(10 / 50, abs=half_an_epoch)
    same = RECIPES[method.recipe]
    assert (chosen.loss.beta_max, chosen.loss.rho, chosen.keep) == (same.loss.beta_max, same.loss.rho, same.keep)


def test_the_papers_scale_is_the_papers():
    paper = SCALES["paper"]
    assert (paper.epochs, paper.batch, paper.phase_one_epochs) == (50, 24, 10)
    assert (paper.size, paper.train_tiles, paper.test_tiles) == (512, 3425, 342)
    with pytest.raises(UnknownScaleError, match="known are paper, small, tiny"):
        scale_named("huge")


def test_methods_come_one_family_after_the_other_and_unknown_ones_are_refused():
    order = [method.family for method in chosen_methods("main")]
    assert order[: order.index("FLAME")] == ["Classical"] * 9
    first = order[9:15]
    assert {"FLAME", "Two-stage", "End-to-end"} == set(first)
    with pytest.raises(UnknownMethodError, match="'ablation' has no method 'unet'; it has flame-no-score, flame"):
        chosen_methods("ablation", ("unet",))
    (own,) = chosen_methods("main", ("my_package:Net",))
    assert (own.key, own.family) == ("my_package.Net", "Your own")


def test_the_page_of_the_documentation_is_what_the_kept_results_give(tmp_path):
    kept = ROOT / "results" / "comparison"
    written = write_page(kept, tmp_path / "results.md")
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == written
    for name in json.dumps(written).split("(images/")[1:]:
        assert (ROOT / "docs" / "images" / name.partition(")")[0]).is_file()
