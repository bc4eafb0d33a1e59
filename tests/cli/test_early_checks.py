"""What is wrong is said before the work begins, in one line, with the right exit code."""

import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import flame
from flame.bench.comparison.experiments import EXPERIMENTS
from flame.cli import main
from flame.cli.app import app
from flame.errors import FlameError


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def told(result):
    assert isinstance(result.exception, FlameError), result.output
    return str(result.exception)


@pytest.fixture
def no_work(monkeypatch):
    """No scene may be read while this holds."""

    def refuse(*_):
        raise AssertionError("a scene was read before the options were checked")

    # The pipeline first: imported after the other, it would keep what that was replaced by.
    monkeypatch.setattr("flame.pipeline.scene_work.open_scene", refuse)
    monkeypatch.setattr("flame.io.open_scene", refuse)


@pytest.fixture(scope="module")
def chip(tmp_path_factory):
    """A plain AVIRIS-NG scene that does not say what sensor it is of."""
    scene = flame.simulate_tile(1, size=40).tile.scene
    path = tmp_path_factory.mktemp("chip") / "chip.npz"
    arrays = {"radiance": scene.radiance, "wavelength_nm": scene.bands.centres_nm, "fwhm_nm": scene.bands.fwhm_nm}
    np.savez(path, **arrays, unit=scene.unit)
    return path


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", [["detect", "x.npz", "--out", "out"], ["demo"], ["profile"]])
def test_an_unknown_runtime_is_refused_first(command):
    result = run(*command, "--runtime", "tensorrt")
    assert "no runtime 'tensorrt'; known are auto, native" in told(result)


@pytest.mark.usefixtures("no_work")
def test_a_runtime_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("flame.onboard.backends.find_spec", lambda _: None)
    result = run("detect", "x.npz", "--out", "out", "--runtime", "openvino")
    assert "pip install 'flame-methane[openvino]'" in told(result)


OUTPUTS = [
    ["detect", "x.npz", "--out"],
    ["demo", "--out"],
    ["profile", "--out"],
    ["simulate", "--out"],
    ["train", "--data", "d", "--out"],
    ["evaluate", "--model", "flame-plus", "--data", "d", "--out"],
    ["export", "run", "--out"],
    ["filter", "mf", "x.npz", "--out"],
    ["bench", "limit", "--out"],
    ["bench", "robustness", "--out"],
    ["bench", "accuracy", "--data", "d", "--out"],
    ["bench", "changes", "--data", "d", "--out"],
    *(["bench", name, "--out"] for name in EXPERIMENTS),
    ["spectrum", "--sensor", "emit", "--csv"],
    ["spectrum", "--sensor", "emit", "--plot"],
    ["info", "x.npz", "--plot"],
]


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", OUTPUTS, ids=lambda command: f"{command[0]}-{command[1]}")
def test_a_place_that_cannot_be_written_is_refused_first(command, tmp_path):
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "file" / "deep" / "out"
    message = told(run(*command, out))
    assert message.startswith(f"{out}: cannot be written")
    assert f"{tmp_path / 'file'} is a file" in message


def test_a_folder_where_no_file_can_be_made_is_refused(monkeypatch, tmp_path):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flame.cli.options.tempfile.TemporaryFile", full)
    assert "No space left on device" in told(run("demo", "--out", tmp_path / "new"))


def test_a_folder_is_no_file_to_write(tmp_path):
    assert "is a folder; give the name of the file" in told(run("filter", "mf", "x.npz", "--out", tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--data", "d", "--out", "o"],
        ["export", "run", "--out", "m.onnx"],
        ["evaluate", "--model", "run", "--data", "d", "--out", "o"],
        ["bench", "accuracy", "--data", "d", "--out", "o"],
        ["bench", "changes", "--data", "d", "--out", "o"],
        ["bench", "main", "--out", "o"],
    ],
    ids=lambda command: f"{command[0]}-{command[1]}",
)
def test_without_torch_one_line_says_what_to_install(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    monkeypatch.setattr("flame.cli.options.find_spec", lambda _: None)
    message = told(run(*command))
    assert "needs PyTorch: pip install 'flame-methane[train]'" in message
    assert "\n" not in message


def test_a_misspelt_model_is_not_taken_for_a_trained_run(monkeypatch, tmp_path):
    """Who has no PyTorch must not be sent to install it for a slip of the finger."""
    monkeypatch.setattr("flame.cli.options.find_spec", lambda _: None)
    message = told(run("evaluate", "--model", "flame-pls", "--data", tmp_path, "--out", tmp_path / "o"))
    assert message.startswith("flame-pls: no such model; give flame-plus, noise-aware-mf,")


def test_a_packaged_name_cannot_be_trained_on(tmp_path):
    message = told(run("export", "flame-plus", "--out", tmp_path / "m.onnx"))
    assert message.startswith("flame-plus is a packaged model")


class TestSensorBesideBackground:
    def test_the_scene_s_own_sensor_is_taken(self, chip, tmp_path):
        common = ["simulate", "--tiles", 1, "--size", 32, "--background", chip, "--workers", 1]
        assert run(*common, "--sensor", "aviris-ng", "--out", tmp_path / "a").exit_code == 0
        assert run(*common, "--out", tmp_path / "b").exit_code == 0

    @pytest.mark.parametrize("command", [["simulate"], ["bench", "limit"], ["bench", "robustness"]])
    def test_another_one_is_refused(self, chip, tmp_path, command):
        out = tmp_path / "out"
        result = run(*command, "--tiles", 1, "--sensor", "emit", "--background", chip, "--out", out)
        assert f"{chip} has other bands than emit" in told(result)
        assert "leave out --sensor emit" in told(result)
        assert not out.exists()

    def test_a_scene_that_states_another_sensor_is_refused(self, tmp_path):
        from flame.io import starcop

        tile = flame.simulate_tile(1, size=32).tile
        folder = starcop.write_tile(tile, tmp_path / tile.name)
        result = run("simulate", "--sensor", "aviris-3", "--background", folder, "--out", tmp_path / "out")
        assert f"{folder} is a scene of aviris-ng" in told(result)

    def test_without_a_background_it_is_simulated(self, tmp_path):
        result = run("simulate", "--sensor", "emit", "--tiles", 1, "--size", 32, "--workers", 1, "--out", tmp_path)
        assert result.exit_code == 0
        (tile,) = [path for path in tmp_path.iterdir() if path.is_dir()]
        assert flame.open_scene(tile).acquisition.sensor == "emit"


class TestExitCodes:
    """0 done, 1 a user's mistake, 2 wrong usage, 3 some inputs failed."""

    def exit_code(self, monkeypatch, capsys, *arguments):
        monkeypatch.setattr("sys.argv", ["flame", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, capsys.readouterr().err

    def test_done(self, monkeypatch, capsys):
        assert self.exit_code(monkeypatch, capsys, "spectrum", "--sensor", "emit") == (0, "")

    def test_a_mistake(self, monkeypatch, capsys):
        code, error = self.exit_code(monkeypatch, capsys, "spectrum", "--sensor", "landsat")
        assert (code, error.startswith("error: no sensor 'landsat'")) == (1, True)

    @pytest.mark.parametrize(
        "arguments", [["detekt"], ["detect"], ["detect", "x", "--out", "o", "--threads", "none"], ["bench", "speed"]]
    )
    def test_wrong_usage(self, monkeypatch, capsys, arguments):
        assert self.exit_code(monkeypatch, capsys, *arguments)[0] == 2

    def test_some_and_all_inputs_failed(self, monkeypatch, capsys, tmp_path):
        from flame.io import starcop

        tile = flame.simulate_tile(1, size=32).tile
        folder = starcop.write_tile(tile, tmp_path / tile.name)
        out = ["--out", tmp_path / "out", "--threads", 1]
        code, error = self.exit_code(monkeypatch, capsys, "detect", folder, tmp_path / "none.npz", *out)
        assert code == 3
        assert "none.npz" in error
        assert self.exit_code(monkeypatch, capsys, "detect", tmp_path / "none.npz", *out)[0] == 1


class TestHelp:
    def test_an_experiment_tells_its_own_options(self):
        limit, accuracy = run("bench", "limit", "--help").output, run("bench", "accuracy", "--help").output
        assert "--preset" in limit
        assert "--only" not in limit
        assert "--only" in accuracy
        assert "--preset" not in accuracy

    def test_names_in_the_help_are_those_there_are(self):
        from flame.cli.train import _RECIPES
        from flame.onboard import RUNTIMES
        from flame.simulate import PRESETS
        from flame.training.recipes import RECIPES

        assert tuple(RECIPES) == _RECIPES
        text = " ".join(run("detect", "--help").output.split())
        assert all(name in text for name in RUNTIMES)
        text = " ".join(run("simulate", "--help").output.split())
        assert all(name in text for name in PRESETS)

    @pytest.mark.parametrize(
        ("line", "offered"),
        [
            ("flame de", {"detect", "demo"}),
            ("flame bench ", {"limit", "robustness", "accuracy", "changes", "report", *EXPERIMENTS}),
            ("flame detect x --runtime o", {"onnxruntime", "openvino"}),
            ("flame detect x --model flame-p", {"flame-plus"}),
            ("flame filter mag", {"mag1c", "mag1c-sas"}),
            ("flame simulate --sensor e", {"emit", "enmap"}),
            ("flame train --recipe t", {"tiny"}),
        ],
    )
    def test_a_shell_completes_commands_and_names(self, line, offered):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_FLAME_COMPLETE": "complete_bash"}
        result = CliRunner().invoke(app, [], prog_name="flame", env=words)
        assert offered <= set(result.output.split())
        assert "spectrum" not in result.output


def test_the_command_starts_without_torch_matplotlib_or_rasterio():
    program = (
        "import sys; from flame.cli.app import app; "
        "print([m for m in ('torch', 'matplotlib', 'rasterio', 'onnxruntime', 'h5py') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
