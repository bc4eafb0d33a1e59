"""Options that several commands share: the same name, type, help, completion and early check everywhere.

A check runs while the command line is read, before any work: a runtime that is not installed or a folder that cannot be
written is told at once, not after an hour.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from flame.errors import FlameError
from flame.physics import SENSORS, sensor

__all__ = [
    "DEFAULT_SENSOR",
    "FIRST_APID",
    "Background",
    "ModelName",
    "PackagedModel",
    "Preset",
    "Runtime",
    "Seed",
    "SimulatedSensor",
    "Threads",
    "TileSize",
    "Workers",
    "completing",
    "input_path",
    "names_package",
    "output_file",
    "output_folder",
    "packaged_names",
    "require_torch",
    "sensor_option",
    "trained_model",
]


def output_folder(text: str, *names: str) -> Any:
    """A folder to write into, checked before the work; it is made when the first file is written."""
    return typer.Option(*names, metavar="FOLDER", help=text, callback=_folder)


def output_file(text: str, *names: str) -> Any:
    """A file to write, checked before the work."""
    return typer.Option(*names, metavar="FILE", help=text, callback=_file)


def input_path(text: str, *names: str, metavar: str = "FILE") -> Any:
    """A file or folder to read; whether it is there is said by its reader, which also says what it should be."""
    return typer.Option(*names, metavar=metavar, help=text)


def _folder(path: Path | None) -> Path | None:
    if path is not None:
        _try_writing(path, path)
    return path


def _file(path: Path | None) -> Path | None:
    if path is not None:
        if path.is_dir():
            raise FlameError(f"{path}: is a folder; give the name of the file to write")
        _try_writing(path.parent, path)
    return path


def _try_writing(folder: Path, named: Path) -> None:
    """Makes a nameless file in the folder, or in the nearest one above it that exists; permissions say too little."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise FlameError(f"{named}: cannot be written, because {there} is a file; choose another place")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as failure:
        reason = failure.strerror or failure
        raise FlameError(f"{named}: cannot be written ({there}: {reason}); choose another place") from None


def completing(names: Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    """What a shell offers for an option that takes one of those names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def packaged_names() -> list[str]:
    """Every packaged model and family by name, and the filter that takes any bands."""
    from flame.onboard import FILTER_MODEL

    return [*_model_names(), FILTER_MODEL]


def _model_names() -> list[str]:
    from flame.onboard import DEFAULT_FAMILY, packaged_models

    return list(dict.fromkeys([DEFAULT_FAMILY, *packaged_models()]))


def _runtimes() -> Sequence[str]:
    from flame.onboard import RUNTIMES

    return RUNTIMES


def _presets() -> list[str]:
    from flame.simulate import PRESETS

    return list(PRESETS)


def _checked_runtime(runtime: str) -> str:
    if runtime != "auto":
        from flame.onboard import check_runtime

        check_runtime(runtime)
    return runtime


def _checked_model(name: str | None) -> str | None:
    if name is not None:
        from flame.onboard import FILTER_MODEL

        if name == FILTER_MODEL:
            raise FlameError(f"{name} is a filter and no model; give a packaged model such as flame-plus, or a file")
    return name


def _checked_sensor(name: str | None) -> str | None:
    return None if name is None else sensor(name).name


ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A packaged model such as flame-plus, an .onnx file, or noise-aware-mf, the filter for any bands. "
        "By default flame-plus, and that filter where no packaged model fits.",
        autocompletion=completing(packaged_names),
    ),
]

PackagedModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A packaged model such as flame-plus, the default, or an .onnx file.",
        callback=_checked_model,
        autocompletion=completing(_model_names),
    ),
]

Runtime = Annotated[
    str,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help="What runs the model: native, openvino, onnxruntime, or auto for the fastest one installed.",
        callback=_checked_runtime,
        autocompletion=completing(_runtimes),
    ),
]

DEFAULT_SENSOR = "aviris-ng"
FIRST_APID = 0x2A0
"""`flame.onboard.link.channels.DEFAULT_APID`, which only the commands that fly load."""


def sensor_option(text: str) -> Any:
    """A sensor by name; `text` says what it is for."""
    return typer.Option(
        "--sensor",
        metavar="NAME",
        help=f"{text}: {', '.join(SENSORS)}.",
        callback=_checked_sensor,
        autocompletion=completing(lambda: list(SENSORS)),
    )


SimulatedSensor = Annotated[
    str | None,
    sensor_option(f"Sensor to simulate, {DEFAULT_SENSOR} by default; with --background, that scene's sensor"),
]

Preset = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="What the scenes are like: wide, permian, quiet, cluttered or narrow.",
        autocompletion=completing(_presets),
    ),
]

Background = Annotated[
    list[Path] | None,
    typer.Option(
        "--background",
        metavar="SCENE",
        help="Put the plumes into this real scene instead of simulated ground; may be repeated.",
    ),
]

Threads = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="CPU threads. By default all cores.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, metavar="N", help="Processes. By default one per core.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="The same seed gives the same result.")]
TileSize = Annotated[int, typer.Option("--size", min=16, metavar="N", help="Rows and columns of a tile, in pixels.")]


def require_torch(command: str) -> None:
    """Says in one line what is missing where PyTorch is not installed."""
    if find_spec("torch") is None:
        raise FlameError(f"`{command}` needs PyTorch: pip install 'flame-methane[train]'")


def names_package(which: Path | str) -> bool:
    """Whether this is the name of a packaged model, and not of a file or folder here."""
    return str(which) in packaged_names() and not Path(which).exists()


def trained_model(which: Path) -> Path:
    """A trained run or its model.safetensors; a packaged name is refused with the reason."""
    if names_package(which):
        raise FlameError(
            f"{which} is a packaged model, made for running, not for training on; "
            "give the run folder of `flame train` or its model.safetensors"
        )
    return which
