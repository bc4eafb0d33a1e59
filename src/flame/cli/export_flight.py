"""`flame export-flight`: a model as one file for the C library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flame.cli.options import PackagedModel, input_path, output_file, sensor_option
from flame.cli.outputs import refuse_overwriting


def run(
    out: Annotated[Path, output_file("The model image to write.")],
    model: PackagedModel = None,
    sensor_name: Annotated[
        str | None, sensor_option("Nominal bands of this sensor; by default those that the model was measured with")
    ] = None,
    scene: Annotated[Path | None, input_path("Take the bands of this scene instead.", metavar="SCENE")] = None,
    tile: Annotated[
        int | None,
        typer.Option(min=32, max=2048, metavar="N", help="Rows and columns judged at once; the model's by default."),
    ] = None,
) -> None:
    """Write a model for the C library: one file with a checksum, for the bands of one sensor.

    It carries the model's threshold and the core that plumes need.

    The library is in the folder `c` of the source; docs/flight.md tells how an app on a flight computer uses it.
    """
    from rich.console import Console

    from flame.errors import FlameError
    from flame.io import open_scene
    from flame.onboard import load_model
    from flame.physics import sensor
    from flame.pipeline.flight_image import write_flight_image
    from flame.scene import SceneFile

    if sensor_name is not None and scene is not None:
        raise FlameError("give --sensor or --scene, not both")
    refuse_overwriting([out], [scene, None if model is None else Path(model)])
    bands = None if sensor_name is None else sensor(sensor_name).bands.methane()
    if scene is not None:
        content = open_scene(scene)
        bands = content.bands.methane()
        if isinstance(content, SceneFile):
            content.close()
    path = write_flight_image(load_model(model), out, bands, tile)
    Console().print(f"{path}: {path.stat().st_size / 1e6:.2f} MB", markup=False, soft_wrap=True)
