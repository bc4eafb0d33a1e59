"""EnMAP L1B (sensor grid, two images, RPCs) and L1C (map grid, one image): a folder, a zip, or its METADATA.XML."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from jaxtyping import UInt16
from scipy import ndimage

from flame.io.assemble import Cube, scene_of, stacked
from flame.io.budget import check_cube, check_expansion, regular_file
from flame.io.enmap_metadata import EnmapMetadata, Rpc, read_enmap_metadata
from flame.io.errors import ReaderError
from flame.io.geotiff_cube import TiffBands
from flame.io.options import OpenOptions
from flame.io.radiance_unit import scale_to_radiance
from flame.io.raster import geo_of
from flame.physics import ColumnBands
from flame.scene import Acquisition, GeoGrid, SceneFile, SceneFlag

__all__ = ["LOOKS_LIKE", "is_enmap", "open_enmap"]

LOOKS_LIKE = "an EnMAP L1B or L1C product: its folder, zip file or ...-METADATA.XML"

UNIT = "W m-2 nm-1 sr-1"
_ENDING = "-METADATA.XML"
_FILL = -32768.0
_RPC_STEP_PX = 16
_MAX_UNZIPPED = 20_000_000_000
_MASKS: tuple[tuple[str, SceneFlag, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("QUALITY_CLOUD", SceneFlag.CLOUD, lambda layer: layer == 1),
    ("QUALITY_CIRRUS", SceneFlag.CIRRUS, lambda layer: (layer >= 1) & (layer <= 3)),
    ("QUALITY_SNOW", SceneFlag.SNOW, lambda layer: layer == 1),
    ("QUALITY_CLASSES", SceneFlag.WATER, lambda layer: layer == 2),
    ("QUALITY_HAZE", SceneFlag.HAZE, lambda layer: layer == 1),
    ("QUALITY_CLOUDSHADOW", SceneFlag.SHADOW, lambda layer: layer == 1),
)


def is_enmap(path: Path) -> bool:
    """Whether a path is an EnMAP product: XML that characterises bands, or a folder or zip with such an XML.

    A folder or zip that holds several is known too, and refused by name when it is opened.
    """
    if path.is_dir():
        return bool(_metadata_in(path))
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                return any(map(_is_metadata, archive.namelist()))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return False
    return path.name.upper().endswith(_ENDING) or (
        start.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<?xml") and b"enmap" in start.lower()
    )


def open_enmap(path: Path | str, options: OpenOptions | None = None) -> SceneFile:
    """Opens a product.

    Raises:
        ReaderError: If a file of it is missing or damaged, or it is of another level than 1.
    """
    path, options = Path(path), options or OpenOptions()
    stack = ExitStack()
    try:
        folder = _unpacked(path, stack) if path.is_file() and zipfile.is_zipfile(path) else path
        found = _metadata_in(folder) if folder.is_dir() else [folder]
        if not found:
            raise ReaderError(path, f"holds no ...{_ENDING}", "give the product's folder as it was delivered")
        if len(found) > 1:
            raise _several(path, [file.name for file in found], "give one of these files")
        return scene_of(_cube(path, found[0], options, stack), options)
    except BaseException:
        stack.close()
        raise


def _is_metadata(name: str) -> bool:
    """Whether this is a product's metadata, by its name; not what macOS puts beside each file of a zip."""
    last = name.rpartition("/")[2]
    return last.upper().endswith(_ENDING) and not last.startswith(".")


def _metadata_in(folder: Path) -> list[Path]:
    """The metadata of each product in a folder, or in the one folder that is all it holds, as zips unpack."""
    inside = sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    if len(inside) == 1 and inside[0].is_dir():
        inside = sorted(inside[0].iterdir())
    return [file for file in inside if _is_metadata(file.name) and file.is_file()]


def _several(path: Path, names: Sequence[str], fix: str) -> ReaderError:
    listed = ", ".join(sorted(names)[:4]) + (", ..." if len(names) > 4 else "")
    return ReaderError(path, f"holds {len(names)} EnMAP products ({listed})", fix)


def _unpacked(path: Path, stack: ExitStack) -> Path:
    """The files of a zip in a folder of their own, which goes when the scene is closed."""
    try:
        with zipfile.ZipFile(regular_file(path)) as archive:
            members = [item for item in archive.infolist() if not item.is_dir()]
            products = [Path(item.filename).name for item in members if _is_metadata(item.filename)]
            if len(products) > 1:
                raise _several(path, products, "unpack it and give the folder")
            total = sum(item.file_size for item in members)
            check_expansion(path, total)
            if total > _MAX_UNZIPPED or len(members) > 1000:
                raise ReaderError(
                    path, f"unpacks to {total / 1e9:.0f} GB in {len(members)} files", "unpack it yourself"
                )
            if shutil.disk_usage(tempfile.gettempdir()).free < 1.1 * total:
                raise ReaderError(path, "there is no room to unpack it", "unpack it yourself and give the folder")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flame-enmap-")))
            for item in members:
                # Only the last part of a name: a member cannot choose where it goes.
                with archive.open(item) as source, (folder / Path(item.filename).name).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, zlib.error) as failure:
        raise ReaderError(path, f"cannot be unpacked ({failure})", "copy or download it again") from failure
    return folder


def _beside(metadata: Path, part: str) -> Path | None:
    """The product's image whose name goes on with `part`."""
    start = metadata.name[: -len(_ENDING)] if metadata.name.upper().endswith(_ENDING) else None
    for file in sorted(metadata.parent.iterdir()):
        stem, dot, suffix = file.name.upper().rpartition(".")
        is_part = stem.endswith(f"-{part}") if start is None else stem == f"{start.upper()}-{part}"
        if dot and suffix in ("TIF", "TIFF", "GEOTIFF") and is_part:
            return file
    return None


def _image(metadata: Path, part: str, stack: ExitStack) -> TiffBands:
    path = _beside(metadata, part)
    if path is None:
        raise ReaderError(
            metadata, f"the image ...-{part}.TIF is not beside it", "put all files of the product together"
        )
    image = TiffBands(path)
    stack.callback(image.close)
    return image


def _cube(path: Path, metadata: Path, options: OpenOptions, stack: ExitStack) -> Cube:
    known = read_enmap_metadata(metadata)
    if known.level == "L1C" and _beside(metadata, "SPECTRAL_IMAGE") is not None:
        images = [_image(metadata, "SPECTRAL_IMAGE", stack)]
    else:
        images = [_image(metadata, "SPECTRAL_IMAGE_VNIR", stack), _image(metadata, "SPECTRAL_IMAGE_SWIR", stack)]
    shape, count = images[-1].shape, sum(image.count for image in images)
    if count != known.centres_nm.size or any(image.shape != shape for image in images):
        raise ReaderError(
            metadata,
            f"describes {known.centres_nm.size} bands, the images hold {count} of "
            f"{' and '.join(f'{image.shape[0]} x {image.shape[1]}' for image in images)} pixels",
            "put all files of one product together",
        )
    check_cube(metadata, count, *shape)
    masks = _Masks(metadata, count, shape, stack)
    nodata = {float(v) for image in images for v in image.source.nodatavals if v is not None and np.isfinite(v) and v}
    scale, notes = scale_to_radiance(metadata, (), options, by_product=UNIT)
    notes["level"] = known.level
    if len(images) == 2:
        notes["colours"] = "from VNIR, which L1B does not align with SWIR (some 20 lines apart)"
    return Cube(
        path=metadata,
        shape=shape,
        centres_nm=_distinct(known),
        read=stacked([(image.count, image.read) for image in images]),
        scale=scale,
        fwhm_nm=known.fwhm_nm,
        gain=known.gain,
        offset=known.offset,
        fill=(_FILL, *sorted(nodata - {_FILL})),
        flags=masks.flags,
        # VNIR and SWIR pixels of L1B are not the same ground, so that no test may mix them: only flares are looked for.
        known=masks.known if len(images) == 1 else ~SceneFlag.FLARE,
        geo=_geo(images[-1], known, shape),
        smile=_column_bands(known, shape[1]) if len(images) == 2 else None,
        acquisition=Acquisition("enmap", known.time, known.solar_zenith_deg, known.view_zenith_deg, str(path), notes),
        close=stack.close,
    )


def _distinct(known: EnmapMetadata) -> np.ndarray:
    """Centres in the images' order; where both spectrometers see the same, VNIR's bands are left out."""
    centres = known.centres_nm.copy()
    centres[: known.vnir_bands][centres[: known.vnir_bands] >= centres[known.vnir_bands]] = np.nan
    return centres


def _column_bands(known: EnmapMetadata, columns: int) -> ColumnBands | None:
    swir = known.column_bands(columns)
    if swir is None:
        return None
    flat = np.ones((known.vnir_bands, columns))
    vnir = known.centres_nm[: known.vnir_bands, None] * flat, known.fwhm_nm[: known.vnir_bands, None] * flat
    return ColumnBands(np.concatenate([vnir[0], swir.centres_nm]), np.concatenate([vnir[1], swir.fwhm_nm]))


def _geo(image: TiffBands, known: EnmapMetadata, shape: tuple[int, int]) -> GeoGrid | None:
    """The map grid of L1C; for L1B the RPCs, evaluated at their middle height."""
    grid = geo_of(image.source) if known.level == "L1C" else None
    if grid is not None or known.rpc is None:
        return grid
    return _geo_of_rpc(known.rpc, shape)


def _geo_of_rpc(rpc: Rpc, shape: tuple[int, int]) -> GeoGrid:
    """Latitude and longitude of every pixel centre; computed every 16 pixels, linear between: RPCs are smooth."""
    from rasterio.rpc import RPC
    from rasterio.transform import RPCTransformer

    off, scale = rpc.offsets, rpc.scales
    model = RPC(
        height_off=off["height"],
        height_scale=scale["height"],
        lat_off=off["lat"],
        lat_scale=scale["lat"],
        line_den_coeff=list(rpc.row_den),
        line_num_coeff=list(rpc.row_num),
        line_off=off["row"],
        line_scale=scale["row"],
        long_off=off["long"],
        long_scale=scale["long"],
        samp_den_coeff=list(rpc.col_den),
        samp_num_coeff=list(rpc.col_num),
        samp_off=off["col"],
        samp_scale=scale["col"],
    )
    knots = [np.unique([*range(0, length, _RPC_STEP_PX), length - 1]) for length in shape]
    row, col = (axis.reshape(-1) for axis in np.meshgrid(*knots, indexing="ij"))
    height = np.full(row.size, off["height"])
    with RPCTransformer(model) as transformer:
        lon, lat = transformer.xy(row.tolist(), col.tolist(), zs=height.tolist(), offset="center")
    place = [
        np.interp(np.arange(length), knot, np.arange(knot.size)) for length, knot in zip(shape, knots, strict=True)
    ]
    at = np.stack(np.meshgrid(*place, indexing="ij"))
    layers = [
        ndimage.map_coordinates(np.asarray(values).reshape(len(knots[0]), len(knots[1])), at, order=1)
        for values in (lat, lon)
    ]
    source = f"RPCs at their middle height of {off['height']:.0f} m"
    return GeoGrid(latitude_deg=layers[0], longitude_deg=layers[1], source=source)


class _Masks:
    """EnMAP's quality layers, one image each, and the pixel mask of the SWIR detector."""

    def __init__(self, metadata: Path, bands: int, shape: tuple[int, int], stack: ExitStack) -> None:
        self.known = SceneFlag.NONE
        self._layers: list[tuple[TiffBands, SceneFlag, Callable[[np.ndarray], np.ndarray]]] = []
        for name, flag, test in _MASKS:
            path = _beside(metadata, f"QL_{name}")
            if path is None:
                continue
            layer = self._opened(path, shape, stack)
            self._layers.append((layer, flag, test))
            self.known |= flag
        path = _beside(metadata, "QL_PIXELMASK_SWIR") or _beside(metadata, "QL_PIXELMASK")
        self._pixels = None if path is None else self._opened(path, shape, stack)
        # SWIR's bands come last, so a mask of fewer bands than the images have speaks of the last ones.
        self._first = 0 if self._pixels is None else bands - self._pixels.count
        self._columns = shape[1]

    def _opened(self, path: Path, shape: tuple[int, int], stack: ExitStack) -> TiffBands:
        layer = TiffBands(path)
        stack.callback(layer.close)
        if layer.shape != shape:
            raise ReaderError(
                path, f"has {layer.shape} pixels, the image {shape}", "put the files of one product together"
            )
        return layer

    def flags(self, rows: slice, bands: Sequence[int]) -> UInt16[np.ndarray, "row col"]:
        flags = np.zeros((rows.stop - rows.start, self._columns), dtype=np.uint16)
        for layer, flag, test in self._layers:
            flags[test(layer.read(rows, [0])[0])] |= np.uint16(int(flag))
        if self._pixels is not None:
            single = self._pixels.count == 1
            inside = [0] if single else [band - self._first for band in bands if band >= self._first]
            faulty = np.count_nonzero(self._pixels.read(rows, inside) > 0, axis=0)
            flags[(faulty > 0) & (faulty <= 2)] |= np.uint16(SceneFlag.INTERPOLATED)
            flags[faulty > 2] |= np.uint16(SceneFlag.DETECTOR)
        return flags
