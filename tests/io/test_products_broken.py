"""Broken, hostile and absurd files: each ends in one message that names the file, in bounded time and memory."""

from __future__ import annotations

import os
import resource
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import product_files as files
import pytest
import rasterio
from envi_samples import CENTRES_NM, cube_of, list_of, write_envi
from io_samples import FEW_BANDS, STARCOP_CSV, STARCOP_NAME, STARCOP_NM, make_tile
from product_ground import make_ground

from flame.io import OpenOptions, ReaderError, open_scene, read_scene, starcop

MEMORY_MB = 700
"""What a refusal may cost on top of the interpreter; a scene of the absurd sizes below would need gigabytes."""


def refused(path: Path, problem: str = "") -> ReaderError:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ReaderError, match=problem) as caught:
        read_scene(path)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) / 1024 < MEMORY_MB
    assert path.name.split(".")[0][:20] in str(caught.value) or path.parent.name in str(caught.value)
    assert caught.value.fix
    return caught.value


def read_or_refused(path: Path, read: Callable[[Path], object] = read_scene) -> None:
    """Reads a file that may be damaged; whatever else than a `ReaderError` comes of it fails the test."""
    told = None
    try:
        read(path)
    except ReaderError as error:
        told = str(error)
    assert told is None or path.name in told


def damaged(write: Callable[[Path, object], Path], sensor: str, change: Callable[[h5py.File], None]) -> Callable:
    def make(folder: Path) -> Path:
        path = write(folder, make_ground(sensor, 20, 16))
        with h5py.File(path, "r+") as file:
            change(file)
        return path

    return make


def replaced(name: str, data: object) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        attributes = dict(file[name].attrs)
        del file[name]
        file[name] = data
        file[name].attrs.update(attributes)

    return change


def absurd(name: str, shape: tuple[int, ...], dtype: str = "f4", **kwargs: object) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        attributes = dict(file[name].attrs)
        del file[name]
        file.create_dataset(name, shape, dtype, chunks=kwargs.pop("chunks", True), **kwargs).attrs.update(attributes)

    return change


def linked(name: str, target: h5py.ExternalLink) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = target

    return change


def removed(name: str) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]

    return change


def attribute(owner: str, name: str, value: object) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[owner].attrs[name]
        if value is not None:
            file[owner].attrs[name] = value

    return change


PRS = "HDFEOS/SWATHS/PRS_L1_HCO"
HYP = "HDFEOS/SWATHS/HYP/Data Fields/toa_radiance"
CASES: dict[str, tuple[Callable, str]] = {
    "emit no wavelengths": (
        damaged(files.write_emit, "emit", removed("sensor_band_parameters/wavelengths")),
        "no dataset",
    ),
    "emit no fwhm": (damaged(files.write_emit, "emit", removed("sensor_band_parameters/fwhm")), "no dataset"),
    "emit no location": (damaged(files.write_emit, "emit", removed("location/lat")), "no dataset 'location/lat'"),
    "emit words for numbers": (
        damaged(files.write_emit, "emit", replaced("sensor_band_parameters/wavelengths", np.array([b"a"] * 285))),
        "expected 1 dimensions of numbers",
    ),
    "emit two dimensions": (
        damaged(files.write_emit, "emit", replaced("radiance", np.zeros((20, 16), "f4"))),
        "expected 3",
    ),
    "emit absurd lines": (
        damaged(files.write_emit, "emit", absurd("radiance", (9_000_000, 1242, 285))),
        "declares|most of it is not there",
    ),
    "emit absurd chunks": (
        damaged(files.write_emit, "emit", absurd("radiance", (600, 1242, 285), chunks=(600, 1242, 285))),
        "pieces of",
    ),
    "emit positions of another size": (
        damaged(files.write_emit, "emit", replaced("location/lat", np.zeros((5, 5)))),
        r"shape \(5, 5\), expected \(20, 16\)",
    ),
    "emit table outside": (
        damaged(
            files.write_emit,
            "emit",
            lambda f: f["location/glt_x"].write_direct(np.full(f["location/glt_x"].shape, 999, "i4")),
        ),
        "points outside",
    ),
    "emit empty table": (
        damaged(
            files.write_emit,
            "emit",
            lambda f: f["location/glt_x"].write_direct(np.zeros(f["location/glt_x"].shape, "i4")),
        ),
        "shows no pixel",
    ),
    "emit absurd table": (
        damaged(files.write_emit, "emit", absurd("location/glt_x", (3_000_000, 3_000_000), "i4")),
        "declares|is not there",
    ),
    "emit pixels of no size": (
        damaged(files.write_emit, "emit", attribute("/", "geotransform", np.zeros(6))),
        "no size",
    ),
    "emit no projection": (
        damaged(files.write_emit, "emit", attribute("/", "spatial_ref", b"over there")),
        "projection",
    ),
    "emit link outside": (
        damaged(files.write_emit, "emit", linked("radiance", h5py.ExternalLink("/etc/passwd", "/x"))),
        "link into another file",
    ),
    "emit reflectance": (
        damaged(files.write_emit, "emit", lambda f: f.move("radiance", "reflectance")),
        "EMIT product of reflectance",
    ),
    "aviris3 unknown unit": (
        damaged(files.write_aviris3, "aviris-3", attribute("radiance/radiance", "units", b"digital numbers")),
        "does not say its radiance unit; pass --unit",
    ),
    "aviris3 no radiance": (
        damaged(files.write_aviris3, "aviris-3", removed("radiance/radiance")),
        "not in a format|without radiance",
    ),
    "aviris3 broken geotransform": (
        damaged(files.write_aviris3, "aviris-3", attribute("transverse_mercator", "GeoTransform", b"1 2 x")),
        "not six numbers",
    ),
    "prisma no scale": (
        damaged(files.write_prisma, "prisma", attribute("/", "ScaleFactor_Swir", None)),
        "lacks ScaleFactor_Swir",
    ),
    "prisma few wavelengths": (
        damaged(files.write_prisma, "prisma", attribute("/", "List_Cw_Swir", np.ones(3, "f4"))),
        "does not list the wavelengths",
    ),
    "prisma layer of another size": (
        damaged(files.write_prisma, "prisma", replaced(f"{PRS}/Data Fields/Cloud_Mask", np.zeros((3, 3), "u1"))),
        "a layer has",
    ),
    "tanager no wavelengths": (
        damaged(files.write_tanager, "tanager-1", attribute(HYP, "wavelengths", None)),
        "does not list",
    ),
    "tanager reflectance": (
        damaged(
            files.write_tanager, "tanager-1", lambda f: f.move(HYP, HYP.replace("toa_radiance", "surface_reflectance"))
        ),
        "without radiance",
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_products_that_cannot_be_right(tmp_path: Path, case: str) -> None:
    make, problem = CASES[case]
    refused(make(tmp_path), problem)


@pytest.mark.parametrize(
    ("write", "sensor"),
    [
        (files.write_emit, "emit"),
        (files.write_prisma, "prisma"),
        (files.write_tanager, "tanager-1"),
        (files.write_aviris3, "aviris-3"),
    ],
)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.98])
def test_truncated_hdf5(tmp_path: Path, write: Callable, sensor: str, share: float) -> None:
    path = write(tmp_path, make_ground(sensor, 20, 16))
    os.truncate(path, int(path.stat().st_size * share))
    refused(path)


@pytest.mark.parametrize("seed", range(12))
def test_flipped_bytes_are_read_or_refused_but_never_raise_otherwise(tmp_path: Path, seed: int) -> None:
    """Damage that HDF5 has no checksum for may go unnoticed; nothing else than a `ReaderError` may come of it."""
    rng = np.random.default_rng(seed)
    path = files.write_emit(tmp_path, make_ground("emit", 20, 16))
    content = bytearray(path.read_bytes())
    for at in rng.integers(0, min(len(content), 40_000), 30):
        content[at] = rng.integers(256)
    path.write_bytes(content)
    read_or_refused(path)


ENMAP_CHANGES: dict[str, tuple[str, str, str]] = {
    "not xml": ("</level_X>", "", "not proper XML"),
    "no bands": ("bandCharacterisation", "somethingElse", "describes no bands"),
    "level 2": ("<level>L1B</level>", "<level>L2A</level>", "of level L2A"),
    "words": ("<GainOfBand>1", "<GainOfBand>much 1", "GainOfBand is 'much"),
    "encoding": ("UTF-8", "UTF-7x", "not proper XML"),
    "entities": ("<level_X ", '<!DOCTYPE a [<!ENTITY b "c">]><level_X ', "entities"),
    "channels": ("<vnir><channels>", "<vnir><channels>9", "VNIR and"),
    "half an RPC": ("<ROW_NUM_7>", "<ROW_FOO_7>", "not proper XML|not complete"),
}


@pytest.mark.parametrize("case", list(ENMAP_CHANGES))
def test_enmap_metadata_that_cannot_be_right(tmp_path: Path, case: str) -> None:
    xml = files.write_enmap(tmp_path, make_ground("enmap", 20, 16))
    old, new, problem = ENMAP_CHANGES[case]
    text = xml.read_text()
    assert old in text
    xml.write_text(text.replace(old, new).replace("</ROW_NUM_7>", "</ROW_FOO_7>" if "FOO" in new else "</ROW_NUM_7>"))
    refused(xml, problem)


@pytest.mark.parametrize("part", ["SPECTRAL_IMAGE_SWIR", "SPECTRAL_IMAGE_VNIR"])
def test_enmap_without_an_image(tmp_path: Path, part: str) -> None:
    xml = files.write_enmap(tmp_path, make_ground("enmap", 20, 16))
    next(tmp_path.glob(f"*{part}.TIF")).unlink()
    refused(xml, f"{part}.TIF is not beside it")


def test_an_enmap_image_cut_short(tmp_path: Path) -> None:
    xml = files.write_enmap(tmp_path, make_ground("enmap", 20, 16))
    image = next(tmp_path.glob("*SPECTRAL_IMAGE_SWIR.TIF"))
    os.truncate(image, image.stat().st_size // 2)
    with pytest.raises(ReaderError, match="SPECTRAL_IMAGE_SWIR"):
        read_scene(xml)


def test_a_zip_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    files.write_enmap(folder, make_ground("enmap", 20, 16))
    archive = files.zipped(folder, tmp_path / "p.zip")
    with zipfile.ZipFile(archive, "a") as target:
        target.writestr("../../escaped.txt", "x")
    with open_scene(archive):
        assert not (tmp_path / "escaped.txt").exists()
        assert not (tmp_path.parent / "escaped.txt").exists()


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.nc")
    refused(tmp_path / "pipe.nc", "pipe, device or socket")
    refused(Path("/dev/zero"), "pipe, device or socket")


def test_a_pipe_beside_a_cube_is_not_opened(tmp_path: Path) -> None:
    ground = make_ground("aviris-ng", 8, 6)
    path = files.write_aviris_ng(tmp_path, ground, "none")
    beside = tmp_path / f"{files.NG_LINE}_rdn_v2x1_igm"
    os.mkfifo(beside)
    (tmp_path / f"{beside.name}.hdr").write_text("ENVI\n")
    assert open_scene(path).geo is None


def test_no_other_gdal_driver_sees_a_file(tmp_path: Path) -> None:
    """A VRT named .tif could read any file and the network."""
    (tmp_path / "scene.tif").write_text("<VRTDataset rasterXSize='1' rasterYSize='1'></VRTDataset>")
    refused(tmp_path / "scene.tif", "does not begin as TIFF")
    for name in STARCOP_NM:
        (tmp_path / f"TOA_AVIRIS_{name}nm.tif").write_text("<VRTDataset rasterXSize='1' rasterYSize='1'></VRTDataset>")
    with pytest.raises(ReaderError, match=r"2124nm\.tif: cannot be read, it is truncated or not a GTiff"):
        read_scene(tmp_path)


def tiny_tiff(path: Path, width: int, height: int, bands: int) -> Path:
    """A TIFF of a few hundred bytes that promises a cube."""
    entries = [
        (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 32), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8),
        (277, 3, 1, bands), (278, 4, 1, height), (279, 4, 1, 16), (284, 3, 1, 1), (339, 3, 1, 3),
    ]  # fmt: skip
    body = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + b"\0" * 4
    path.write_bytes(b"II*\0" + struct.pack("<I", 24) + b"\0" * 16 + body)
    return path


@pytest.mark.parametrize("size", [(2_000_000, 2_000_000, 1), (60_000, 60_000, 400), (20_000, 20_000, 300)])
def test_a_tiny_tiff_that_promises_terabytes(tmp_path: Path, size: tuple[int, int, int]) -> None:
    refused(tiny_tiff(tmp_path / "bomb.tif", *size))


def test_an_npz_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (100, 40000, 40000), }".ljust(117) + b"\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("radiance.npy", member + b"\0" * 5_000_000)
        archive.writestr("wavelength_nm.npy", member)
    refused(path, "radiance declares 100 x 40000 x 40000 values, 640.0 GB")


def chip(path: Path, **arrays: np.ndarray) -> Path:
    wavelength = np.array([2300.0, 2305.0, 2310.0])
    np.savez(path, **({"radiance": cube_of(bands=3), "wavelength_nm": wavelength} | arrays))
    return path


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"valid": np.ones((3, 3), bool)}, r"valid has shape \(3, 3\)"),
        ({"valid": np.array(["a"])}, "valid has shape"),
        ({"fwhm_nm": np.ones(2)}, "fwhm_nm has 2 values for 3 bands"),
        ({"wavelength_nm": np.array(["a", "b", "c"])}, "wavelength_nm has shape"),
        ({"radiance": np.ones((3, 4, 5), complex)}, "type complex128"),
        ({"wavelength_nm": np.array([np.nan, np.inf, 2300.0])}, "no usable|finite|FWHM"),
    ],
)
def test_chips_whose_arrays_do_not_fit(tmp_path: Path, arrays: dict[str, np.ndarray], problem: str) -> None:
    if problem.startswith("no usable"):
        assert len(read_scene(chip(tmp_path / "chip.npz", **arrays)).bands) == 1
    else:
        refused(chip(tmp_path / "chip.npz", **arrays), problem)


@pytest.mark.parametrize("seed", range(40))
def test_mutated_chips(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = chip(tmp_path / "chip.npz")
    content = bytearray(path.read_bytes())
    for at in rng.integers(0, len(content), rng.integers(1, 12)):
        content[at] = rng.integers(256)
    path.write_bytes(content[: rng.integers(len(content) // 2, len(content) + 1)])
    read_or_refused(path)


@pytest.mark.parametrize("seed", range(40))
def test_mutated_envi_headers(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = write_envi(tmp_path / "line", cube_of(), wavelength=list_of(CENTRES_NM), fwhm=list_of(np.full(8, 6.0)))
    header = tmp_path / "line.hdr"
    content = bytearray(header.read_bytes())
    for at in rng.integers(4, len(content), rng.integers(1, 10)):
        content[at] = rng.choice(list(b"0123456789 =,{}\nabz-\xff\0"))
    header.write_bytes(content)
    read_or_refused(path)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("lines", "99999999999", "more than any flight line"),
        ("lines", "-4", "empty"),
        ("lines", "four", "give a whole number"),
        ("samples", "1e3", "give a whole number"),
        ("data type", "6", "cannot be read"),
        ("interleave", "zip", "interleave"),
        ("header offset", "-5", "cannot be read"),
        ("byte order", "7", "cannot be read"),
    ],
)
def test_envi_headers_of_absurd_layout(tmp_path: Path, field: str, value: str, problem: str) -> None:
    path = write_envi(tmp_path / "line", cube_of(), wavelength=list_of(CENTRES_NM))
    header = tmp_path / "line.hdr"
    text = header.read_text().splitlines()
    header.write_text("\n".join(f"{field} = {value}" if row.startswith(f"{field} =") else row for row in text))
    refused(path, problem)


def test_a_geotiff_without_wavelengths(tmp_path: Path) -> None:
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", height=4, width=4, count=2, dtype="float32") as target:
        target.write(np.ones((2, 4, 4), np.float32))
    refused(tmp_path / "a.tif", "do not tell their wavelengths")


def test_a_geotiff_of_reflectance(tmp_path: Path) -> None:
    path = files.write_geotiff(tmp_path, make_ground("generic-10nm", 8, 6))
    with rasterio.open(path, "r+") as target:
        target.update_tags(units="surface reflectance")
    refused(path, "holds reflectance")
    assert open_scene(path, OpenOptions(scale=1.0)).shape == (8, 6)


@pytest.mark.parametrize("name", ["ang20191399t250000_rdn_img", "ang20191018t996199_rdn_img"])
def test_a_name_that_tells_no_date(tmp_path: Path, name: str) -> None:
    path = write_envi(tmp_path / name, cube_of(), wavelength=list_of(CENTRES_NM))
    assert open_scene(path).acquisition.time is None


@pytest.mark.parametrize("seed", range(30))
def test_mutated_lists_of_tiles(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "train.csv"
    content = bytearray(STARCOP_CSV.format(name=STARCOP_NAME).encode() * 2)
    for at in rng.integers(0, len(content), rng.integers(1, 20)):
        content[at] = rng.choice(list(b'0,"\n\xff\x00\xc3az'))
    path.write_bytes(content)
    read_or_refused(path, starcop.read_index)


@pytest.mark.parametrize("seed", range(30))
def test_mutated_truth(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    folder = starcop.write_tile(make_tile(bands=FEW_BANDS), tmp_path / "sim_0001")
    content = bytearray((folder / "truth.json").read_bytes())
    for at in rng.integers(0, len(content), rng.integers(1, 8)):
        content[at] = rng.choice(list(b'0123456789,"{}[]eN-tn\xff'))
    (folder / "truth.json").write_bytes(content)
    read_or_refused(folder, starcop.read_tile)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"solar_zenith_deg": 31.5', '"solar_zenith_deg": "noon"'),
        ('"row": 3.5', '"row": [3]'),
        ('"version": 1', '"version": 9'),
    ],
)
def test_truth_of_wrong_types(tmp_path: Path, old: str, new: str) -> None:
    folder = starcop.write_tile(make_tile(bands=FEW_BANDS), tmp_path / "sim_0001")
    text = (folder / "truth.json").read_text()
    assert old in text
    (folder / "truth.json").write_text(text.replace(old, new))
    with pytest.raises(ReaderError, match="is damaged or of another version"):
        starcop.read_tile(folder)


def test_a_map_projection_in_no_encoding(tmp_path: Path) -> None:
    """GDAL hands the name on as it stands, and it is no text."""
    path = files.write_aviris_ng(tmp_path, make_ground("aviris-ng", 20, 16))
    (header,) = tmp_path.glob("*_glt.hdr")
    header.write_bytes(header.read_bytes().replace(b"Lat/Lon", b"L\xff\xff\xff\xffon"))
    with pytest.raises(ReaderError, match="_glt: cannot be read") as caught:
        read_scene(path)
    assert caught.value.fix
