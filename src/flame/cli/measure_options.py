"""Options of commands that weigh plumes: the wind, the coefficients and the check of spectra."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flame.cli.options import completing
from flame.physics import Wind
from flame.rates import OWN, coefficient_sets

if TYPE_CHECKING:
    from flame.pipeline.measure import MeasureSettings

__all__ = ["measure_options"]


def measure_options(
    wind: Annotated[
        list[str] | None,
        typer.Option(
            "--wind",
            metavar="SPEED,DIRECTION[,SIGMA]",
            help="Wind at 10 m in m/s, and the degrees it blows from; may be repeated: each gives rates of its own.",
        ),
    ] = None,
    wind_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--wind-file",
            metavar="FILE",
            help="CSV, GeoJSON, netCDF (ERA5) or GRIB (HRRR, ERA5) with winds by time and place; may be repeated.",
        ),
    ] = None,
    coefficients: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Effective-wind coefficients: {', '.join(coefficient_sets())}.",
            autocompletion=completing(lambda: list(coefficient_sets())),
        ),
    ] = OWN,
    air_temperature: Annotated[
        float, typer.Option(metavar="KELVIN", help="Temperature of the air in which ppm are counted, for the mass.")
    ] = 273.15,
    air_pressure: Annotated[float, typer.Option(metavar="PASCAL", help="Its pressure, for the mass.")] = 101_325.0,
    spectral_check: Annotated[bool, typer.Option(help="Check the spectrum of each plume for methane.")] = True,
) -> MeasureSettings:
    """A group: how plumes are measured.

    Raises:
        FlameError: If a wind is none, a file is not there, or there are no such coefficients.
    """
    from flame.pipeline.measure import MeasureSettings

    return MeasureSettings(
        winds=tuple(map(Wind.parse, wind or ())),
        wind_files=tuple(wind_file or ()),
        coefficients=coefficients,
        temperature_k=air_temperature,
        pressure_pa=air_pressure,
        check=spectral_check,
    )
