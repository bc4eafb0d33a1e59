"""Which scenes a folder holds: each product once, damaged ones too, and what is read with a scene never."""

import zipfile

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

from flame.cli.app import app
from flame.errors import FlameError
from flame.io import ReaderError, open_scene
from flame.onboard import Detectors
from flame.pipeline.detect import detect_files
from flame.pipeline.find_scenes import find_scenes

ENMAP = "ENMAP01-____L1B-DT00000{}_202306{}T094107Z_003_V010303_20230615T101010Z"
EMIT = "EMIT_{}_001_20230614T094107_2316506_004.nc"


def enmap(folder, day=14):
    """Files of a product, by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    start = ENMAP.format(17500 + day, day)
    for image in ("SPECTRAL_IMAGE_VNIR", "SPECTRAL_IMAGE_SWIR", "QL_QUALITY_CLOUD"):
        (folder / f"{start}-{image}.TIF").write_bytes(b"II*\x00")
    metadata = folder / f"{start}-METADATA.XML"
    metadata.write_text("<?xml?><level_X>EnMAP</level_X>")
    return metadata


def hdf5(path, *groups):
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for group in groups:
            file.create_group(group)
        file["ballast"] = np.arange(4000)
    return path


def emit(folder):
    radiance = hdf5(folder / EMIT.format("L1B_RAD"), "sensor_band_parameters", "location")
    hdf5(folder / EMIT.format("L1B_OBS"), "sensor_band_parameters", "location")
    hdf5(folder / EMIT.format("L2A_MASK"), "sensor_band_parameters", "location")
    return radiance


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    return path


def found_in(*paths):
    return sorted(find_scenes(paths))


def test_a_product_beside_other_scenes_hides_none(tmp_path):
    enmap(tmp_path / "a")
    other, granule = enmap(tmp_path / "b", 15), emit(tmp_path / "c")
    assert found_in(tmp_path) == [tmp_path / "a", tmp_path / "b", granule]
    assert found_in(tmp_path / "b") == [tmp_path / "b"]
    hdf5(tmp_path / "b" / "PRS_L1.he5", "HDFEOS/SWATHS/PRS_L1_HCO")
    assert set(found_in(tmp_path / "b")) >= {other}
    assert tmp_path / "b" not in found_in(tmp_path)


def test_two_products_in_one_folder_are_two_scenes(tmp_path):
    products = [enmap(tmp_path, 14), enmap(tmp_path, 15)]
    assert found_in(tmp_path) == products
    with pytest.raises(ReaderError, match=r"holds 2 EnMAP products .*give one of these files"):
        open_scene(tmp_path)


def test_the_folder_around_a_product_is_not_the_product(tmp_path):
    """Two such folders would have the same content: none."""
    enmap(tmp_path / "download" / "product")
    assert found_in(tmp_path / "download") == [tmp_path / "download" / "product"]


def test_a_zip_of_two_products_is_refused_by_name(tmp_path):
    products = [enmap(tmp_path, 14), enmap(tmp_path, 15)]
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        for number, product in enumerate(products):
            archive.write(product, f"{number}/{product.name}")
    with pytest.raises(ReaderError, match=r"holds 2 EnMAP products .*unpack it"):
        open_scene(tmp_path / "both.zip")


def test_angles_and_masks_are_no_scenes_walked_or_given(tmp_path):
    granule = emit(tmp_path / "emit")
    line = "AV320230614t094107_002_L1B_{}_3f4aef90_{}.nc"
    radiance = hdf5(tmp_path / "av3" / line.format("RDN", "RDN"), "radiance/radiance")
    hdf5(tmp_path / "av3" / line.format("ORT", "OBS"), "observation_parameters")
    assert found_in(tmp_path) == [radiance, granule]
    assert found_in(*sorted(granule.parent.iterdir())) == [granule]
    alone = hdf5(tmp_path / "alone" / granule.name.replace("L1B_RAD", "L1B_OBS"), "sensor_band_parameters", "location")
    assert found_in(tmp_path / "alone") == [alone]  # without its scene it is told why it is none


def test_damaged_products_count_and_other_files_do_not(tmp_path):
    hdf5(tmp_path / "winds.nc", "of something else")
    for name, content in {"README": "", "notes.txt": "x", "page.html": "", "data.zip": "PK\x03\x04 torn"}.items():
        (tmp_path / name).write_text(content)
    cut(hdf5(tmp_path / "download.part", "location"))  # not there yet
    assert find_scenes([tmp_path]) == [tmp_path]  # nothing: told on opening
    damaged = {
        cut(hdf5(tmp_path / "torn.nc", "location")): "is truncated or damaged",
        cut(hdf5(tmp_path / "torn.bin", "location")): "is truncated or damaged",
        tmp_path / "text.he5": "does not begin as HDF5",
        tmp_path / "empty.tif": "is empty",
        tmp_path / "ENMAP01-L1B.zip": "is truncated or damaged",
        tmp_path / "loop.nc": "no such file",
    }
    (tmp_path / "text.he5").write_text("<html>log in first</html>")
    (tmp_path / "empty.tif").write_bytes(b"")
    (tmp_path / "ENMAP01-L1B.zip").write_bytes(b"PK\x03\x04 torn")
    (tmp_path / "loop.nc").symlink_to("loop.nc")
    assert found_in(tmp_path) == sorted(damaged)
    for path, says in damaged.items():
        with pytest.raises(ReaderError, match=says):
            open_scene(path)
    result = CliRunner().invoke(app, ["detect", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "0 of 6 inputs done" in result.output


def test_results_never_go_into_a_scene_s_folder(tmp_path):
    enmap(tmp_path / "p")
    for out in (tmp_path / "p", tmp_path / "p" / "deep" / "out"):
        with pytest.raises(FlameError, match="lies in the folder of the scene"):
            detect_files([tmp_path / "p"], out, Detectors())
    assert not (tmp_path / "p" / "report.html").exists()
    detect_files([tmp_path / "p"], tmp_path / "out", Detectors())
