"""`flame spectrum`: the unit absorption spectrum for a sensor or for a file's bands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from flame.cli.options import input_path, output_file, sensor_option
from flame.cli.outputs import refuse_overwriting
from flame.errors import FlameError
from flame.files import whole_file
from flame.physics import METHANE_WINDOW_NM, SENSORS, BandSet, methane_table, sensor, unit_absorption

_ROWS_SHOWN = 24


def _bands(sensor_name: str | None, file: Path | None, everything: bool) -> tuple[BandSet, str]:
    if (sensor_name is None) == (file is None):
        raise FlameError(f"give either --sensor NAME ({', '.join(SENSORS)}) or --file SCENE, and not both")
    table = methane_table()
    known_nm = float(table.wavelength_nm[0]), float(table.wavelength_nm[-1])
    if sensor_name is not None:
        chosen = sensor(sensor_name)
        bands, title = chosen.bands, chosen.title
    else:
        from flame.io import OpenOptions, open_scene

        assert file is not None
        # What 1 in the file is does not matter to its bands: a file that does not say its unit is no mistake here.
        options = OpenOptions(scale=1.0, window_nm=known_nm if everything else METHANE_WINDOW_NM)
        bands, title = open_scene(file, options).bands, file.name
    return (bands.select(bands.within(*known_nm)) if everything else bands.methane()), title


def run(
    sensor_name: Annotated[str | None, sensor_option("Take the nominal bands of this sensor")] = None,
    file: Annotated[Path | None, input_path("Take the bands of this scene instead.", metavar="SCENE")] = None,
    csv: Annotated[Path | None, output_file("CSV file for centre, width and absorption of each band.")] = None,
    plot: Annotated[Path | None, output_file("PNG file for the absorption figure.")] = None,
    everything: Annotated[
        bool, typer.Option("--all-bands", help="All bands from 1400 to 2500 nm, not only those used for methane.")
    ] = False,
) -> None:
    """Print how strongly methane absorbs in each band of a sensor or a file.

    The unit is the change of log-radiance per 100,000 ppm m of methane, as in MAG1C; negative where methane absorbs.
    """
    refuse_overwriting([csv, plot], [file])
    bands, title = _bands(sensor_name, file, everything)
    spectrum = unit_absorption(bands)
    console = Console()
    table = Table(title=f"{title}: {bands.describe()}", title_justify="left")
    for heading in ("centre (nm)", "FWHM (nm)", "s (per 1e5 ppm m)"):
        table.add_column(heading, justify="right")
    step = max(1, -(-len(bands) // _ROWS_SHOWN))
    for at in range(0, len(bands), step):
        table.add_row(f"{bands.centres_nm[at]:.2f}", f"{bands.fwhm_nm[at]:.2f}", f"{spectrum[at]:.4f}")
    console.print(table)
    strongest = int(np.argmin(spectrum))
    shown = "all bands" if step == 1 else f"every {step}. band"
    console.print(f"({shown} shown) strongest: {spectrum[strongest]:.3f} at {bands.centres_nm[strongest]:.1f} nm")
    if csv is not None:
        columns = np.column_stack([bands.centres_nm, bands.fwhm_nm, spectrum])
        header = "centre_nm,fwhm_nm,unit_absorption_per_1e5_ppm_m"
        with whole_file(csv) as partial:
            np.savetxt(partial, columns, ("%.4f", "%.4f", "%.8f"), delimiter=",", comments="", header=header)
        console.print(f"wrote {csv}", markup=False, soft_wrap=True)
    if plot is not None:
        from flame.products.spectrum_figure import plot_absorption

        plot_absorption(bands, spectrum, title, plot)
        console.print(f"wrote {plot}", markup=False, soft_wrap=True)
