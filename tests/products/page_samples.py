"""A small scene with two plumes and everything that is said of them, made by hand: no detector runs for it."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from scipy import ndimage

from flame.detection import find_plumes
from flame.detection.spectral_check import SpectralCheck
from flame.physics import BandSet, Wind
from flame.plumes import DetectionLimit, LightPath, PlumePoint, PlumeRecord, SceneRecord, UnitRate, plume_letters
from flame.products.layers import SceneMaps
from flame.products.scene_page import SceneReport
from flame.rates import PlumeFigures, PlumeMass, PlumeShape, Rate
from flame.scene import Acquisition, GeoGrid, LookupTable, Scene, SceneFlag

UTM = GeoGrid(crs="EPSG:32613", affine=(5.0, 0.0, 600_000.0, 0.0, -5.0, 3_560_000.0))
TIME = datetime(2024, 5, 17, 18, 3, 21, tzinfo=UTC)
BANDS = BandSet(np.linspace(2120.0, 2480.0, 40), np.full(40, 6.0))
FEW_BANDS = BandSet(BANDS.centres_nm[::10], BANDS.fwhm_nm[::10])  # the pages do not look at radiance
WIND = Wind(4.2, 250.0, 1.1, "a mast near by")


def sample_scene(shape: tuple[int, int] = (60, 80), geo: GeoGrid | None = UTM, time: datetime | None = TIME) -> Scene:
    """Ground with texture, a cloud in a corner."""
    rng = np.random.default_rng(0)
    texture = ndimage.gaussian_filter(rng.standard_normal(shape), 3)
    flags = np.zeros(shape, np.uint16)
    flags[:8, :10] = int(SceneFlag.CLOUD)
    rgb = (np.array([9.0, 8.0, 6.0])[:, None, None] * (1 + 2 * texture)).clip(0.5).astype(np.float32)
    radiance = np.repeat((0.5 * (1 + 2 * texture)).clip(0.05).astype(np.float32)[None], len(FEW_BANDS), axis=0)
    seen = Acquisition("aviris-ng", time, 35.0, 5.0, "flight.img")
    return Scene(radiance, FEW_BANDS, flags == 0, rgb, geo, seen, flags=flags)


def sample_mask(shape: tuple[int, int]) -> np.ndarray:
    mask = np.zeros(shape, np.bool_)
    mask[20:32, 30:62] = True
    mask[44:50, 8:16] = True
    return mask


def sample_maps(scene: Scene) -> SceneMaps:
    rng = np.random.default_rng(1)
    mask = sample_mask(scene.shape)
    enhancement = np.where(mask, 2400.0, 0.0) + rng.normal(0, 150.0, scene.shape)
    usable = scene.valid
    sigma = np.where(usable, 150.0, np.inf).astype(np.float32)
    quality = np.where(usable, 0, 1).astype(np.uint8)
    probability = np.where(mask, 0.96, 0.02).astype(np.float32)
    return SceneMaps(enhancement.astype(np.float32), probability, mask, usable, quality, scene.flags, sigma)


def sample_check(p_value: float = 1 / 301) -> SpectralCheck:
    nm = BANDS.centres_nm
    without = 0.01 * (nm - 2300.0) / 180.0
    fitted = without - 0.15 * np.exp(-0.5 * ((nm - 2345.0) / 25.0) ** 2)
    outside = 0.6 - 0.001 * (nm - 2120.0)
    terms = {"methane": 2300.0, "curve 0": 0.0}
    return SpectralCheck(
        *(p_value, 2300.0, 180.0, 0.91, 40, 300, nm, outside * np.exp(fitted), outside),
        *(fitted + 0.003 * np.sin(nm), without, fitted, terms),
    )


def sample_record(scene: Scene, maps: SceneMaps, name: str = "flight", wind: Wind | None = WIND) -> SceneRecord:
    """Both plumes, the larger with rates by two methods."""
    plumes = sorted(find_plumes(maps.mask, maps.probability, maps.enhancement_ppm_m), key=lambda p: -p.area_px)
    records = []
    for number, plume in enumerate(plumes, start=1):
        mass = PlumeMass(41.2 / number, 3.4, 2.0, 12.0, plume.area_px * 25.0, 5.6e-7)
        shape = PlumeShape(0, 70.0, 160.0, 55.0, 171.0)
        rates = ()
        if wind is not None:
            rates = (
                Rate("ime", 1234.5 / number, 310.2, wind, 2.1, 98.0),
                Rate("fetch", 1180.0 / number, 295.0, wind, 4.2, 171.0),
            )
        on_map = scene.geo is not None
        place = (-103.9, 32.1) if on_map else (None, None)
        records.append(
            PlumeRecord(
                id=f"{name}-{plume_letters(number)}",
                number=number,
                plume=plume,
                source=PlumePoint(plume.first_row + 0.5, plume.first_col + 0.5, *place),
                image_deg=80.0,
                shape=shape if on_map else None,
                at_edge=number == 2,
                figures=PlumeFigures(mass, (), 171.0, 160.0, None) if on_map else None,
                light=LightPath(1.2, "for the test"),
                rates=rates if on_map else (),
                unit_rate=UnitRate(290.0, 25.0) if on_map else None,
                check=sample_check() if number == 1 else None,
                notes=("the plume reaches the edge of what could be seen",) if number == 2 else (),
            )
        )
    limits = (DetectionLimit(3.0, 120.0, 340.0, "12 plumes simulated for this test"),)
    assert maps.sigma_ppm_m is not None
    return SceneRecord(
        tuple(records), maps.enhancement_ppm_m, maps.sigma_ppm_m, "a filter", (wind,) if wind else (), "flame", limits
    )


def sample_report(source: str = "flight.img", **changes: object) -> SceneReport:
    facts = {"Taken": "2024-05-17 18:03:21 UTC", "Sensor": "aviris-ng"}
    entries = {
        "source": source,
        "facts": facts,
        "made": {"Software": "flame 0.0", "Plumes found by": "a test"},
        "limits": ["Nothing was looked at."],
        "files": {"enhancement.tif": "a map", "enhancement.qml": "a style"},
    }
    return SceneReport(**(entries | changes))


def glt_grid(shape: tuple[int, int], turn_deg: float = 20.0) -> GeoGrid:
    """A turned swath of about 60 m pixels with a look-up table made from it."""
    from scipy.spatial import cKDTree

    side = 5.4e-4
    row, col = np.mgrid[0 : shape[0], 0 : shape[1]] + 0.5
    turn = np.deg2rad(turn_deg)
    lat = 32.0 + side * (-row * np.cos(turn) - col * np.sin(turn))
    lon = -104.0 + side * (col * np.cos(turn) - row * np.sin(turn)) / np.cos(np.deg2rad(32.0))
    west, north, step = lon.min() - side, lat.max() + side, side
    cols, rows = (int(np.ceil(np.ptp(part) / step)) + 3 for part in (lon, lat))
    x, y = np.meshgrid(west + (np.arange(cols) + 0.5) * step, north - (np.arange(rows) + 0.5) * step)
    shrink = np.array([np.cos(np.deg2rad(32.0)), 1.0])
    tree = cKDTree(np.stack([lon.ravel(), lat.ravel()], axis=1) * shrink)
    distance, nearest = tree.query(np.stack([x.ravel(), y.ravel()], axis=1) * shrink, distance_upper_bound=step)
    flat = np.where(np.isfinite(distance), nearest, -1)
    table_row = np.where(flat >= 0, flat // shape[1], -1).reshape(rows, cols).astype(np.int32)
    table_col = np.where(flat >= 0, flat % shape[1], -1).reshape(rows, cols).astype(np.int32)
    table = LookupTable("EPSG:4326", (step, 0.0, west, 0.0, -step, north), table_row, table_col)
    return GeoGrid(latitude_deg=lat, longitude_deg=lon, table=table)
