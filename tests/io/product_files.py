"""Writes tiny files in the true structure of each product: groups, attributes, types, fill, chunks and quirks."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import h5py
import numpy as np
import rasterio
from envi_samples import list_of, write_envi
from product_ground import SUN_DEG, TIME, VIEW_DEG, Ground
from rasterio.crs import CRS

FILL = -9999.0
WGS84 = CRS.from_epsg(4326).to_wkt()
GRANULE = "20230614T094107_2316506_004"


def glt_of(latitude: np.ndarray, longitude: np.ndarray, pixel_deg: float) -> tuple[np.ndarray, np.ndarray, tuple]:
    """A look-up table on a north-up grid as NASA writes it: (sample, line, geotransform), from 1, 0 for none."""
    from scipy.spatial import cKDTree

    side = pixel_deg
    west, north = longitude.min() - side, latitude.max() + side
    cols = int(np.ceil((longitude.max() + side - west) / side))
    rows = int(np.ceil((north - latitude.min() + side) / side))
    lon = west + (np.arange(cols) + 0.5) * side
    lat = north - (np.arange(rows) + 0.5) * side
    cells = np.stack(np.meshgrid(lon, lat), axis=-1).reshape(-1, 2)
    shrink = np.array([np.cos(np.deg2rad(latitude.mean())), 1.0])
    points = np.stack([longitude.ravel(), latitude.ravel()], axis=1)
    distance, nearest = cKDTree(points * shrink).query(cells * shrink, distance_upper_bound=0.75 * side)
    found = np.isfinite(distance)
    line, sample = np.zeros(rows * cols, np.int32), np.zeros(rows * cols, np.int32)
    line[found] = nearest[found] // latitude.shape[1] + 1
    sample[found] = nearest[found] % latitude.shape[1] + 1
    return sample.reshape(rows, cols), line.reshape(rows, cols), (west, side, 0.0, north, 0.0, -side)


def _location(file: h5py.File, ground: Ground, mirrored: bool = False) -> None:
    sample, line, transform = glt_of(ground.latitude, ground.longitude, ground.pixel_deg)
    if mirrored:
        sample = np.where(sample > 0, ground.shape[1] + 1 - sample, 0).astype(np.int32)
    location = file.create_group("location")
    for name, values in (("lat", ground.latitude), ("lon", ground.longitude), ("elev", np.full(ground.shape, 212.0))):
        stored = location.create_dataset(name, data=values, chunks=ground.shape, compression="gzip")
        stored.attrs["_FillValue"] = np.array([FILL])
    location.create_dataset("glt_x", data=sample, compression="gzip")
    location.create_dataset("glt_y", data=line, compression="gzip")
    file.attrs["geotransform"] = np.array(transform)
    file.attrs["spatial_ref"] = np.bytes_(WGS84)


def _granule(file: h5py.File, build: str) -> None:
    for key, text in (
        ("sensor", "EMIT (Earth Surface Mineral Dust Source Investigation)"),
        ("instrument", "EMIT"),
        ("platform", "ISS"),
        ("flight_line", "emit20230614t094107_o16506_s000"),
        ("time_coverage_start", TIME.strftime("%Y-%m-%dT%H:%M:%S+0000")),
        ("software_build_version", build),
        ("product_version", "V001"),
        ("crosstrack_orientation", "as seen on ground"),
    ):
        file.attrs[key] = np.bytes_(text)


def write_emit(
    folder: Path, ground: Ground, *, masks: bool = True, obs: bool = True, mirrored_table: bool = False
) -> Path:
    """EMIT_L1B_RAD with OBS and L2A MASK beside it."""
    path = folder / f"EMIT_L1B_RAD_001_{GRANULE}.nc"
    cube = np.moveaxis(ground.radiance, 0, -1).copy()
    cube[-1, -1] = FILL
    rows, cols = ground.shape
    with h5py.File(path, "w") as file:
        _granule(file, "010612" if mirrored_table else "010622")
        stored = file.create_dataset(
            "radiance", data=cube, chunks=(min(rows, 32), min(cols, 40), min(len(ground.bands), 64)), compression="gzip"
        )
        stored.attrs["_FillValue"] = np.array([FILL], np.float32)
        stored.attrs["units"] = np.bytes_("uW/cm^2/SR/nm")
        stored.attrs["long_name"] = np.bytes_("Radiance Data")
        parameters = file.create_group("sensor_band_parameters")
        parameters["wavelengths"] = ground.bands.centres_nm.astype(np.float32)
        parameters["fwhm"] = ground.bands.fwhm_nm.astype(np.float32)
        _location(file, ground, mirrored_table)
    if obs:
        with h5py.File(folder / f"EMIT_L1B_OBS_001_{GRANULE}.nc", "w") as file:
            _granule(file, "010622")
            layers = np.zeros((rows, cols, 11), np.float32)
            layers[..., 2], layers[..., 4] = VIEW_DEG, SUN_DEG
            file.create_dataset("obs", data=layers, compression="gzip").attrs["_FillValue"] = np.array([FILL], "f4")
            names = np.array(OBS_BANDS, dtype=h5py.string_dtype())
            file.create_group("sensor_band_parameters").create_dataset("observation_bands", data=names)
            _location(file, ground)
    if masks:
        _write_emit_mask(folder / f"EMIT_L2A_MASK_001_{GRANULE}.nc", ground)
    return path


OBS_BANDS = (
    "Path length (sensor-to-ground in meters)",
    "To-sensor azimuth (0 to 360 degrees CW from N)",
    "To-sensor zenith (0 to 90 degrees from zenith)",
    "To-sun azimuth (0 to 360 degrees CW from N)",
    "To-sun zenith (0 to 90 degrees from zenith)",
    "Solar phase (degrees between to-sensor and to-sun vectors in principal plane)",
    "Slope (local surface slope as derived from DEM in degrees)",
    "Aspect (local surface aspect 0 to 360 degrees clockwise from N)",
    "Cosine(i) (apparent local illumination factor based on DEM slope and aspect and to sun vector)",
    "UTC Time (decimal hours for mid-line pixels)",
    "Earth-sun distance (AU)",
)
MASK_BANDS = (
    "Cloud flag",
    "Cirrus flag",
    "Water flag",
    "Spacecraft Flag",
    "Dilated Cloud Flag",
    "AOD550",
    "H2O (g cm-2)",
    "Aggregate Flag",
)
FAULTY_COLUMN, SATURATED_PIXEL, BAD_COLUMN = 3, (17, 13), 5


def _write_emit_mask(path: Path, ground: Ground) -> None:
    rows, cols = ground.shape
    bands = len(ground.bands)
    layers = np.zeros((rows, cols, 8), np.float32)
    layers[..., 0], layers[..., 2] = ground.cloud, ground.water
    layers[15, 2, 1] = 1
    layers[..., 5], layers[..., 6] = 0.21, 0.68
    marked = np.zeros((rows, cols, bands), np.uint8)
    marked[:, FAULTY_COLUMN, bands - 20] = 1
    marked[:, BAD_COLUMN, bands - 20 : bands - 12] = 1
    marked[(*SATURATED_PIXEL, bands - 25)] = 1
    with h5py.File(path, "w") as file:
        _granule(file, "010622")
        file.create_dataset("mask", data=layers, compression="gzip").attrs["_FillValue"] = np.array([FILL], np.float32)
        file.create_dataset("band_mask", data=np.packbits(marked, axis=-1), compression="gzip")
        names = file.create_group("sensor_band_parameters")
        names.create_dataset("mask_bands", data=np.array(MASK_BANDS, dtype=h5py.string_dtype()))
        _location(file, ground)


NG_LINE = "ang20230614t094107"


def write_aviris_ng(folder: Path, ground: Ground, geometry: str = "igm", name: str = f"{NG_LINE}_rdn_v2x1_img") -> Path:
    """An AVIRIS-NG line in ENVI, in the sensor's grid, with the location files named: igm, utm, loc or glt."""
    cube = ground.radiance.copy()
    cube[:, -1, -1] = FILL
    wavelengths = list_of(ground.bands.centres_nm)
    fields = {"wavelength": wavelengths, "fwhm": list_of(ground.bands.fwhm_nm), "wavelength_units": "Nanometers"}
    path = write_envi(folder / name, cube, "bil", state_unit=False, data_ignore_value="-9999", **fields)
    start = name.removesuffix("_img")
    obs = np.zeros((11, *ground.shape), np.float64)
    obs[2], obs[4] = VIEW_DEG, SUN_DEG
    write_envi(folder / f"{start}_obs", obs, "bip", state_unit=False)
    sample, line, transform = glt_of(ground.latitude, ground.longitude, ground.pixel_deg)
    infill = sample.copy()
    infill[sample > 0] *= np.where(np.arange(np.count_nonzero(sample)) % 5 == 0, -1, 1).astype(np.int32)
    # As GDAL writes it: the first pixel's corner, then sizes.
    west, north = f"{transform[0]:.12f}", f"{transform[3]:.12f}"
    info = f"{{Geographic Lat/Lon, 1, 1, {west}, {north}, {transform[1]:.12g}, {-transform[5]:.12g}, WGS-84}}"
    if geometry in ("glt", "igm"):
        sign = np.where(infill < 0, -1, 1).astype(np.int32)
        write_envi(folder / f"{start}_glt", np.stack([infill, line * sign]), "bip", state_unit=False, map_info=info)
    elevation = np.full(ground.shape, 212.0)
    if geometry == "igm":
        write_envi(
            folder / f"{start}_igm", np.stack([ground.longitude, ground.latitude, elevation]), "bip", state_unit=False
        )
    if geometry == "loc":
        write_envi(
            folder / f"{start}_loc", np.stack([ground.longitude, ground.latitude, elevation]), "bil", state_unit=False
        )
    if geometry == "utm":
        x, y = rasterio.warp.transform("EPSG:4326", "EPSG:32640", ground.longitude.ravel(), ground.latitude.ravel())
        layers = np.stack([np.reshape(x, ground.shape), np.reshape(y, ground.shape), elevation])
        utm = "{UTM, 1, 1, 0.0, 0.0, 1.0, 1.0, 40, North, WGS-84, units=Meters}"
        write_envi(folder / f"{start}_igm", layers, "bip", state_unit=False, map_info=utm)
    return path


AV3_LINE = "AV320230614t094107"


def write_aviris3(folder: Path, ground: Ground, *, arrays: bool = True) -> Path:
    """AVIRIS-3 netCDF in the sensor's grid with its table inside, and the OBS file."""
    path = folder / f"{AV3_LINE}_002_L1B_RDN_3f4aef90_RDN.nc"
    cube = ground.radiance.copy()
    cube[:, -1, -1] = FILL
    sample, line, transform = glt_of(ground.latitude, ground.longitude, ground.pixel_deg)
    with h5py.File(path, "w") as file:
        group = file.create_group("radiance")
        stored = group.create_dataset("radiance", data=cube, chunks=(10, 12, 16), compression="gzip")
        stored.attrs["units"] = np.bytes_("uW nm-1 cm-2 sr-1")
        stored.attrs["_FillValue"] = np.array([FILL], np.float32)
        group["wavelength"] = ground.bands.centres_nm.astype(np.float32)
        group["fwhm"] = ground.bands.fwhm_nm.astype(np.float32)
        _map_variable(file, transform)
        table = file.create_group("geolocation_lookup_table")
        table["sample"], table["line"] = sample, line
        if arrays:
            file["lat"], file["lon"] = ground.latitude, ground.longitude
        file.attrs["time_coverage_start"] = np.bytes_(TIME.isoformat())
    with h5py.File(folder / f"{AV3_LINE}_002_L1B_ORT_3f4aef90_OBS.nc", "w") as file:
        group = file.create_group("observation_parameters")
        group["to_sun_zenith"] = np.full(ground.shape, SUN_DEG, np.float32)
        group["to_sensor_zenith"] = np.full(ground.shape, VIEW_DEG, np.float32)
    return path


def _map_variable(file: h5py.File, transform: tuple) -> None:
    variable = file.create_dataset("transverse_mercator", data=np.bytes_(b""))
    variable.attrs["spatial_ref"] = np.bytes_(WGS84)
    variable.attrs["GeoTransform"] = np.bytes_(" ".join(f"{value:.14g}" for value in transform))


SWIR_FROM_NM, KEY_FROM = 940.0, 77


def write_prisma(folder: Path, ground: Ground, shift_nm: np.ndarray | None = None) -> Path:
    """PRISMA L1: counts, (across, band, along), across from the last column, wavelengths falling, unused ones zero."""
    path = folder / "PRS_L1_STD_OFFL_20230614094107_20230614094111_0001.he5"
    rows, cols = ground.shape
    shift = np.zeros(cols) if shift_nm is None else shift_nm
    with h5py.File(path, "w") as file:
        fields = file.create_group("HDFEOS/SWATHS/PRS_L1_HCO/Data Fields")
        for name, pad in (("Vnir", "before"), ("Swir", "after")):
            chosen = ground.bands.centres_nm < SWIR_FROM_NM
            chosen = chosen if name == "Vnir" else ~chosen
            centres, widths = ground.bands.centres_nm[chosen][::-1], ground.bands.fwhm_nm[chosen][::-1]
            radiance = ground.radiance[chosen][::-1] * 10.0
            factor, offset = (90.0 if name == "Vnir" else 600.0), 0.5
            counts = np.clip(np.round((radiance + offset) * factor), 0, 65535).astype(np.uint16)
            empty = 3 if pad == "before" else 2
            zeros = np.zeros(empty)
            centres = np.concatenate([zeros, centres] if pad == "before" else [centres, zeros]).astype(np.float32)
            widths = np.concatenate([zeros, widths] if pad == "before" else [widths, zeros]).astype(np.float32)
            counts = np.pad(counts, [(empty, 0) if pad == "before" else (0, empty), (0, 0), (0, 0)])
            stored = np.ascontiguousarray(counts[:, :, ::-1].transpose(2, 0, 1))
            fields.create_dataset(
                f"{name.upper()}_Cube", data=stored, chunks=(8, stored.shape[1], rows), compression="gzip"
            )
            errors = np.zeros(stored.shape, np.uint8)
            if name == "Swir":
                at = int(np.argmin(np.abs(centres - 2300)))
                errors[cols - 1 - SATURATED_PIXEL[1], at, SATURATED_PIXEL[0]] = 2
                errors[cols - 1 - FAULTY_COLUMN, at, :] = 1
            fields.create_dataset(f"{name.upper()}_PIXEL_SAT_ERR_MATRIX", data=errors, compression="gzip")
            file.attrs[f"ScaleFactor_{name}"], file.attrs[f"Offset_{name}"] = np.float32(factor), np.float32(offset)
            file.attrs[f"List_Cw_{name}"], file.attrs[f"List_Fwhm_{name}"] = centres, widths
            file.attrs[f"List_Cw_{name}_Flags"] = (centres > 0).astype(np.int32)
            key = np.zeros((cols, 256), np.float32)
            key[:, KEY_FROM : KEY_FROM + centres.size] = np.where(centres > 0, centres + shift[:, None], 0)
            file[f"KDP_AUX/Cw_{name}_Matrix"] = key
            key = np.zeros((cols, 256), np.float32)
            key[:, KEY_FROM : KEY_FROM + centres.size] = widths
            file[f"KDP_AUX/Fwhm_{name}_Matrix"] = key
        fields["Cloud_Mask"] = _across_along(ground.cloud.astype(np.uint8))
        fields["LandCover_Mask"] = _across_along(np.where(ground.water, 0, 2).astype(np.uint8))
        fields["SunGlint_Mask"] = np.zeros((cols, rows), np.uint8)
        places = file.create_group("HDFEOS/SWATHS/PRS_L1_HCO/Geolocation Fields")
        places["Latitude_SWIR"] = _across_along(ground.latitude).astype(np.float32)
        places["Longitude_SWIR"] = _across_along(ground.longitude).astype(np.float32)
        file.attrs["Sun_zenith_angle"] = np.float32(SUN_DEG)
        file.attrs["Product_StartTime"] = np.bytes_(TIME.replace(tzinfo=None).isoformat() + ".000")
    return path


def _across_along(layer: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(layer.T[::-1])


UTM, UTM_PIXEL = "EPSG:32640", 30.0


def write_tanager(folder: Path, ground: Ground, ortho: bool = False) -> Path:
    """A Tanager scene: basic (swath with latitudes) or ortho (map grid in StructMetadata.0)."""
    path = folder / f"20230614_094107_00_4001_{'ortho' if ortho else 'basic'}_radiance_hdf5.h5"
    root = f"HDFEOS/{'GRIDS' if ortho else 'SWATHS'}/HYP"
    rows, cols = ground.shape
    cube = ground.radiance * 10
    cube[:, -1, -1] = FILL
    empty = np.zeros(ground.shape, np.uint32)
    empty[-1, -1] = 1
    with h5py.File(path, "w") as file:
        fields = file.create_group(f"{root}/Data Fields")
        stored = fields.create_dataset("toa_radiance", data=cube, chunks=(16, 8, 8), compression="gzip")
        stored.attrs["wavelengths"], stored.attrs["fwhm"] = ground.bands.centres_nm, ground.bands.fwhm_nm
        stored.attrs["Unit"], stored.attrs["_FillValue"] = np.bytes_("W/(m^2 sr um)"), np.float32(FILL)
        fields["beta_cloud_mask"] = ground.cloud.astype(np.uint32)
        fields["beta_cirrus_mask"] = np.zeros(ground.shape, np.uint32)
        fields["nodata_pixels"] = empty
        fields["sun_zenith"] = np.full(ground.shape, SUN_DEG, np.float32)
        fields["sensor_zenith"] = np.full(ground.shape, VIEW_DEG, np.float32)
        if ortho:
            file[root].attrs["epsg_code"] = 32640
            left, top = UTM_CORNER
            words = (
                'GROUP=GridStructure\n\tGROUP=GRID_1\n\t\tGridName="HYP"\n'
                f"\t\tXDim={cols}\n\t\tYDim={rows}\n\t\tUpperLeftPointMtrs=({left:.2f},{top:.2f})\n"
                f"\t\tLowerRightMtrs=({left + cols * UTM_PIXEL:.2f},{top - rows * UTM_PIXEL:.2f})\n"
                "\t\tProjection=HE5_GCTP_UTM\n\t\tZoneCode=40\n\t\tPixelRegistration=HE5_HDFE_CORNER\n"
            )
            file["HDFEOS INFORMATION/StructMetadata.0"] = np.bytes_(words)
        else:
            places = file.create_group(f"{root}/Geolocation Fields")
            places["Latitude"], places["Longitude"] = ground.latitude, ground.longitude
            places["Time"] = TIME.timestamp() + 0.005 * np.arange(rows)
            framing = {
                "epsg_code": 32640,
                "rows": rows,
                "cols": cols,
                "geotransform": [0.0, 30.0, 0.0, 0.0, 0.0, -30.0],
            }
            places.attrs["Planet_Ortho_Framing"] = json.dumps(framing)
    return path


UTM_CORNER = (245_310.0, 4_259_880.0)


def utm_place(row: float, col: float, pixel_m: float = UTM_PIXEL) -> tuple[float, float]:
    """Latitude and longitude of a pixel coordinate on the map grid that the gridded samples have."""
    latitude, longitude = utm_places(np.array([row]), np.array([col]), pixel_m)
    return float(latitude[0]), float(longitude[0])


def utm_places(rows: np.ndarray, cols: np.ndarray, pixel_m: float = UTM_PIXEL) -> tuple[np.ndarray, np.ndarray]:
    """`utm_place` of many."""
    x, y = UTM_CORNER[0] + cols * pixel_m, UTM_CORNER[1] - rows * pixel_m
    lon, lat = rasterio.warp.transform(UTM, "EPSG:4326", x.ravel().tolist(), y.ravel().tolist())
    return np.reshape(lat, rows.shape), np.reshape(lon, rows.shape)


def write_geotiff(folder: Path, ground: Ground, how: str = "tags", name: str = "cube.tif", **profile: object) -> Path:
    """A GeoTIFF cube whose bands tell their wavelengths in one of the ways in use."""
    path = folder / name
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        height=ground.shape[0],
        width=ground.shape[1],
        count=len(ground.bands),
        dtype="float32",
        crs=UTM,
        transform=rasterio.Affine(UTM_PIXEL, 0, UTM_CORNER[0], 0, -UTM_PIXEL, UTM_CORNER[1]),
        nodata=FILL,
        **profile,
    ) as target:
        cube = ground.radiance.copy()
        cube[:, -1, -1] = FILL
        target.write(cube)
        target.update_tags(units="uW/cm2/nm/sr")
        for at, (centre, width) in enumerate(zip(ground.bands.centres_nm, ground.bands.fwhm_nm, strict=True), start=1):
            if how == "tags":
                target.update_tags(at, wavelength=f"{centre:.6f}", wavelength_units="nanometers", fwhm=f"{width:.4f}")
            elif how == "micrometres":
                target.update_tags(
                    at, wavelength=f"{centre / 1000:.9f}", wavelength_units="um", fwhm=f"{width / 1000:.7f}"
                )
            elif how == "imagery":
                target.update_tags(
                    at, ns="IMAGERY", CENTRAL_WAVELENGTH_UM=f"{centre / 1000:.9f}", FWHM_UM=f"{width / 1000:.7f}"
                )
            else:
                target.set_band_description(at, f"radiance at {centre:.6f} nm")
    return path


def write_enmap(folder: Path, ground: Ground, level: str = "L1B", smile: np.ndarray | None = None) -> Path:
    """An EnMAP product folder; returns the METADATA.XML. `smile`: coefficients c0 to c4 for all SWIR bands."""
    start = f"ENMAP01-____{level}-DT0000017552_20230614T094107Z_003_V010303_20230615T101010Z"
    vnir = int(np.count_nonzero(ground.bands.centres_nm < 995.0))
    gain, offset = np.geomspace(1.4e-5, 1.5e-6, len(ground.bands)), np.linspace(-1e-5, 2e-5, len(ground.bands))
    counts = np.round((ground.radiance / 100.0 - offset[:, None, None]) / gain[:, None, None]).astype(np.int32)
    counts = np.clip(counts, -32767, 32767).astype(np.int16)
    counts[:, -1, -1] = -32768
    if level == "L1B":
        _tif(folder / f"{start}-SPECTRAL_IMAGE_VNIR.TIF", counts[:vnir], False)
        _tif(folder / f"{start}-SPECTRAL_IMAGE_SWIR.TIF", counts[vnir:], False)
        pixels = np.zeros((len(ground.bands) - vnir, *ground.shape), np.uint8)
        pixels[-15, :, FAULTY_COLUMN] = 1
        pixels[-15:-10, :, BAD_COLUMN] = 1
        _tif(folder / f"{start}-QL_PIXELMASK_SWIR.TIF", pixels, False)
    else:
        _tif(folder / f"{start}-SPECTRAL_IMAGE.TIF", counts, True)
    on_map = level == "L1C"
    _tif(folder / f"{start}-QL_QUALITY_CLOUD.TIF", ground.cloud[None].astype(np.uint8), on_map)
    _tif(folder / f"{start}-QL_QUALITY_CIRRUS.TIF", np.zeros((1, *ground.shape), np.uint8), on_map)
    _tif(folder / f"{start}-QL_QUALITY_SNOW.TIF", np.zeros((1, *ground.shape), np.uint8), on_map)
    _tif(folder / f"{start}-QL_QUALITY_HAZE.TIF", np.zeros((1, *ground.shape), np.uint8), on_map)
    _tif(folder / f"{start}-QL_QUALITY_CLASSES.TIF", np.where(ground.water, 2, 1)[None].astype(np.uint8), on_map)
    path = folder / f"{start}-METADATA.XML"
    path.write_text(_enmap_xml(ground, level, vnir, gain, offset, smile))
    return path


def _tif(path: Path, layers: np.ndarray, on_map: bool) -> None:
    grid = (
        {"crs": UTM, "transform": rasterio.Affine(UTM_PIXEL, 0, UTM_CORNER[0], 0, -UTM_PIXEL, UTM_CORNER[1])}
        if on_map
        else {}
    )
    count, rows, cols = layers.shape
    with rasterio.open(
        path, "w", driver="GTiff", height=rows, width=cols, count=count, dtype=layers.dtype, compress="deflate", **grid
    ) as target:
        target.write(layers)


RPC_HEIGHT = 310.0


def rpc_terms(ground: Ground) -> dict[str, float]:
    """RPCs that put pixel centres exactly where the swath has them: rows and columns are linear in lat and lon here."""
    rows, cols = ground.shape
    down, across = np.indices(ground.shape)
    lat_off, long_off = float(ground.latitude.mean()), float(ground.longitude.mean())
    lat_scale, long_scale = float(np.ptp(ground.latitude)) / 2, float(np.ptp(ground.longitude)) / 2
    p = ((ground.latitude - lat_off) / lat_scale).ravel()
    q = ((ground.longitude - long_off) / long_scale).ravel()
    design = np.stack([np.ones(p.size), q, p], axis=1)
    terms = {
        "ROW_OFF": rows / 2, "COL_OFF": cols / 2, "LAT_OFF": lat_off, "LONG_OFF": long_off, "HEIGHT_OFF": RPC_HEIGHT,
        "ROW_SCALE": rows / 2, "COL_SCALE": cols / 2, "LAT_SCALE": lat_scale, "LONG_SCALE": long_scale,
        "HEIGHT_SCALE": 500.0,
    }  # fmt: skip
    for axis, values, off, scale in (("ROW", down, rows / 2, rows / 2), ("COL", across, cols / 2, cols / 2)):
        fitted = np.linalg.lstsq(design, (values.ravel() - off) / scale, rcond=None)[0]
        for number in range(1, 21):
            terms[f"{axis}_NUM_{number}"] = float(fitted[number - 1]) if number <= 3 else 0.0
            terms[f"{axis}_DEN_{number}"] = 1.0 if number == 1 else 0.0
    return terms


def _enmap_xml(
    ground: Ground, level: str, vnir: int, gain: np.ndarray, offset: np.ndarray, smile: np.ndarray | None
) -> str:
    rows, cols = ground.shape
    swir = len(ground.bands) - vnir
    bands = "".join(
        f'<bandID number="{at}"><wavelengthCenterOfBand>{centre:.6f}</wavelengthCenterOfBand>'
        f"<FWHMOfBand>{width:.4f}</FWHMOfBand><GainOfBand>{g:.9e}</GainOfBand><OffsetOfBand>{o:.9e}</OffsetOfBand></bandID>"
        for at, (centre, width, g, o) in enumerate(
            zip(ground.bands.centres_nm, ground.bands.fwhm_nm, gain, offset, strict=True), start=1
        )
    )
    coefficients = np.zeros(5) if smile is None else smile
    one = "".join(f"<coeff{k}>{c:.9e}</coeff{k}>" for k, c in enumerate(coefficients))
    curves = "".join(
        f"<{name}>" + "".join(f'<bandID number="{at}">{one}</bandID>' for at in range(1, count + 1)) + f"</{name}>"
        for name, count in (("VNIR", vnir), ("SWIR", swir))
    )
    terms = "".join(f"<{key}>{value:.15e}</{key}>" for key, value in rpc_terms(ground).items())
    rpcs = "".join(f'<bandID number="{at}">{terms}</bandID>' for at in range(1, vnir + swir + 1))
    corners = "".join(f"<{c}>{90 - SUN_DEG}</{c}>" for c in ("upper_left", "upper_right", "lower_left", "lower_right"))
    size = f"<dimension><rows>{rows}</rows><columns>{cols}</columns></dimension>"
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<level_X xmlns="http://www.enmap.org/metadata">
<metadata><comment>EnMAP</comment></metadata>
<base><level>{level}</level><temporalCoverage><startTime>{TIME.strftime("%Y-%m-%dT%H:%M:%S.000000Z")}</startTime></temporalCoverage></base>
<specific><sunElevationAngle>{corners}<center>{90 - SUN_DEG}</center></sunElevationAngle>
<acrossOffNadirAngle><center>-6.3</center></acrossOffNadirAngle>
<bandCharacterisation>{bands}</bandCharacterisation></specific>
<product><image><vnir><channels>{vnir}</channels>{size}</vnir><swir><channels>{swir}</channels>{size}</swir></image>
<smileCorrection>{curves}</smileCorrection><navigation><RPC>{rpcs}</RPC></navigation></product>
</level_X>
"""


def zipped(folder: Path, target: Path) -> Path:
    """A product's folder as it is downloaded."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{folder.name}/{file.name}")
    return target
