"""Every format that FLAME reads: a small whole sample of each, and how it is read. A new reader is one line below."""

from __future__ import annotations

import shutil
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from flame.detection import find_plumes
from flame.io import oxhyper, read_scene, starcop
from flame.physics import BandSet
from flame.scene import Acquisition, GeoGrid, Scene
from flame.tile import LabelledTile, PlumeSource

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        name: What the table calls it.
        make: Writes a whole sample into an empty folder and gives the path to read.
        read: Reads a path, as far as FLAME ever would.
        resign: Gives damaged bytes a right checksum, so that what stands behind it is tried too; None for most.
        is_file: Whether FLAME itself opens the file; else its bytes come by another way.
        leave: Names of files that are not damaged, because another format has them.
    """

    name: str
    make: Callable[[Path], Path]
    read: Callable[[Path], object]
    resign: Callable[[bytes], bytes] | None = None
    is_file: bool = True
    leave: tuple[str, ...] = ()


_BANDS = BandSet(np.array([2120.5, 2210.25, 2300.0, 2310.5, 2350.75]), np.full(5, 5.9))
_GRID = GeoGrid(crs="EPSG:32613", affine=(5.0, 0.0, 600_000.0, 0.0, -5.0, 3_560_000.0))


def _tile(name: str = "tile_1", size: int = 12, bands: BandSet = _BANDS) -> LabelledTile:
    rng = np.random.default_rng(0)
    scene = Scene(
        rng.uniform(0.5, 3.0, (len(bands), size, size)).astype(np.float32),
        bands,
        np.ones((size, size), dtype=np.bool_),
        rng.uniform(1.0, 9.0, (3, size, size)).astype(np.float32),
        _GRID,
        Acquisition(sensor="aviris-ng", solar_zenith_deg=31.5),
    )
    enhancement = rng.uniform(0, 4000, (size, size)).astype(np.float32)
    source = PlumeSource(3.5, 2.25, 812.25, 4.5, 210.0)
    return LabelledTile(name, scene, enhancement > 2000, enhancement, emission_kg_h=812.25, sources=(source,))


def _make_npz(folder: Path) -> Path:
    scene = _tile().scene
    path = folder / "chip.npz"
    centres = np.concatenate([[460.0, 550.0, 640.0], scene.bands.centres_nm])
    cube = np.concatenate([scene.rgb if scene.rgb is not None else (), scene.radiance])
    unit = "uW cm-2 nm-1 sr-1"
    np.savez(path, radiance=cube, wavelength_nm=centres, fwhm_nm=np.full(8, 5.9), valid=scene.valid, unit=unit)
    return path


def _make_npz_packed(folder: Path) -> Path:
    path = _make_npz(folder)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez_compressed(path, **arrays)
    return path


_ENVI = """ENVI
description = {{AVIRIS-NG calibrated radiance, uW nm-1 cm-2 sr-1}}
samples = 12
lines = 12
bands = {bands}
header offset = 0
file type = ENVI Standard
data type = 4
interleave = {interleave}
byte order = 0
map info = {{UTM, 1, 1, 600000, 3560000, 5, 5, 13, North, WGS-84}}
wavelength units = Nanometers
acquisition time = 2019-10-18T14:44:05Z
data ignore value = -9999
wavelength = {{ {centres} }}
fwhm = {{ {widths} }}
bbl = {{ {good} }}
"""


def _write_envi(path: Path, header: Path, interleave: str, axes: tuple[int, int, int]) -> Path:
    scene = _tile().scene
    cube = np.concatenate([scene.rgb if scene.rgb is not None else (), scene.radiance])
    centres = [460.0, 550.0, 640.0, *scene.bands.centres_nm.tolist()]
    path.write_bytes(np.ascontiguousarray(cube.transpose(axes)).astype("<f4").tobytes())
    listed = {"centres": centres, "widths": [5.9] * 8, "good": [1] * 8}
    texts = {name: ", ".join(map(str, values)) for name, values in listed.items()}
    header.write_text(_ENVI.format(bands=len(centres), interleave=interleave, **texts))
    return path


def _make_envi(folder: Path) -> Path:
    return _write_envi(folder / "scene_img", folder / "scene_img.hdr", "bil", (1, 0, 2))


def _make_envi_bip(folder: Path) -> Path:
    _write_envi(folder / "ang20191018t144405_rdn.img", folder / "ang20191018t144405_rdn.hdr", "bip", (1, 2, 0))
    return folder / "ang20191018t144405_rdn.hdr"


def _make_starcop(folder: Path) -> Path:
    return starcop.write_tile(_tile(), folder / "tile_1")


def _make_starcop_plain(folder: Path) -> Path:
    """As STARCOP itself has it: no truth.json, every band of the window."""
    from flame.physics import sensor

    name = "ang20191018t144405_r2674_c436_w151_h151"
    path = starcop.write_tile(_tile(name, 6, sensor("aviris-ng").bands.methane()), folder / name)
    (path / "truth.json").unlink()
    return path


def _make_oxhyper(folder: Path) -> Path:
    event = folder / "event_1"
    tile = starcop.write_tile(_tile(), folder / "tile_1")
    event.mkdir()
    _write_envi(event / "B", event / "B.hdr", "bsq", (0, 1, 2))
    (tile / "labelbinary.tif").rename(event / "labelbinary.tif")
    shutil.rmtree(tile)
    return event


def _make_index(folder: Path) -> Path:
    tiles = [_tile(f"ang20191018t14440{number}_r1_c2_w151_h151") for number in range(4)]
    return starcop.write_index(folder, "train", [starcop.TileRecord.of(tile, "train") for tile in tiles])


def _read_index(path: Path) -> object:
    records = starcop.read_dataset(path.parent, "train").records
    return [(record.flight_line, record.emission_kg_h) for record in records]


def _make_plan(folder: Path) -> Path:
    from flame.files import write_json
    from flame.pipeline.datasets import SimulationPlan

    write_json(folder / "simulation.json", {**vars(SimulationPlan(tiles=4)), "flame_version": "0.1.0"})
    return folder


def _read_plan(path: Path) -> object:
    from flame.pipeline.datasets import read_plan

    plan = read_plan(path)
    return plan.name(0), plan.split(0), plan.settings()


def _make_package(folder: Path) -> Path:
    from flame.onboard.package import DEFAULT_MODEL, packaged_models

    path = packaged_models()[DEFAULT_MODEL]
    for suffix in (".onnx", ".json", ".safetensors"):
        shutil.copy(path.with_suffix(suffix), folder / f"model{suffix}")
    return folder / "model.onnx"


def _read_package(path: Path) -> object:
    from flame.onboard import load_model

    package = load_model(path)
    return package.manifest.bands, package.manifest.rule


def _read_native(path: Path) -> object:
    """The weights behind a right checksum, up to a loaded network."""
    from dataclasses import replace

    from flame.onboard import ModelPackage, sha256_of
    from flame.onboard.backends import open_backend
    from flame.onboard.manifest import Manifest

    manifest = Manifest.from_json(path.with_suffix(".json").read_text())
    weights = path.with_suffix(".safetensors").read_bytes()
    assert manifest.network is not None
    signed = replace(manifest, network=replace(manifest.network, sha256=sha256_of(weights)))
    return open_backend(ModelPackage(signed, path.read_bytes(), "model", weights), "native", 1)


def _make_weights(folder: Path) -> Path:
    import torch

    from flame.models import Flame
    from flame.models.settings import FlameSettings
    from flame.models.weights import save_model
    from flame.physics import unit_absorption

    torch.manual_seed(0)
    settings = FlameSettings(bands=len(_BANDS), width=4, modes=2)
    model = Flame(settings, unit_absorption(_BANDS))
    save_model(folder / "model.safetensors", settings, model.state_dict(), _BANDS, {"recipe": "x", "f1": 0.5})
    return folder


def _read_weights(path: Path) -> object:
    from flame.models.weights import load_model

    return load_model(path)


def _make_checkpoint(folder: Path) -> Path:
    from flame.training.checkpoints import Progress, save_checkpoint

    model, optimizer = _small_run()
    history = [{"loss": 0.5, "f1": 0.25}]
    progress = Progress("recipe", 3, 1, 2, {"loss": 1.0}, history, 0.25, 0.3, 0)
    save_checkpoint(folder / "checkpoint.safetensors", progress, model, optimizer, None)
    return folder / "checkpoint.safetensors"


def _small_run():  # type: ignore[no-untyped-def]
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def _read_checkpoint(path: Path) -> object:
    from flame.training.checkpoints import load_checkpoint

    model, optimizer = _small_run()
    return load_checkpoint(path, "recipe", 3, model, optimizer, None)


def _make_cache(folder: Path) -> Path:
    from flame.training.cache import MadeTiles, build_cache

    build_cache(folder / "train.cache", MadeTiles(3, lambda index: _tile(f"tile_{index}"), "fuzz"), None)
    return folder / "train.cache"


def _read_cache(path: Path) -> object:
    from flame.training.cache import TileCache

    cache = TileCache(path)
    cache.read_into([0], cache.new_batch(1))
    return [cache[index].name for index in range(len(cache))], cache.plume_pixels(), cache.names, cache.bands


def _resign_cache(content: bytes) -> bytes:
    """The header's CRC-32 stands after the magic and the length."""
    length = int.from_bytes(content[8:16], "little")
    return content[:16] + struct.pack("<I", zlib.crc32(content[20 : 20 + length])) + content[20:]


def _make_packets(folder: Path) -> Path:
    from flame.onboard.downlink import encode_plume

    rng = np.random.default_rng(0)
    mask = rng.random((40, 60)) > 0.6
    score = rng.gamma(2.0, 500.0, mask.shape)
    plumes = find_plumes(mask, np.full(mask.shape, 0.9), score)
    (folder / "downlink.bin").write_bytes(b"".join(encode_plume(p, 1, n) for n, p in enumerate(plumes)))
    return folder / "downlink.bin"


def _read_packets(path: Path) -> object:
    from flame.onboard.downlink import decode_all, decode_packet

    content = path.read_bytes()
    packets, _ = decode_all(content)
    assert all(np.isfinite(p.peak_ppm_m) and p.area_px <= p.rows * p.cols for p in packets)
    return decode_packet(content)


def _resign_packet(content: bytes) -> bytes:
    """The first packet's CRC-32 stands at its end."""
    end = int.from_bytes(content[4:6], "big") - 4
    if not 0 < end <= len(content) - 4:
        return content
    return content[:end] + struct.pack(">I", zlib.crc32(content[:end])) + content[end + 4 :]


def _make_products(folder: Path) -> Path:
    from flame.files import write_json
    from flame.products.geojson import write_geojson

    tile = _tile()
    score = tile.enhancement_ppm_m if tile.enhancement_ppm_m is not None else np.zeros((12, 12))
    write_geojson(folder / "plumes.geojson", find_plumes(tile.label, tile.label * 1.0, score), tile.scene.geo)
    facts = {
        "source": "x", "sensor": None, "time": None, "rows": 12, "columns": 12, "usable_pixels": 144, "plumes": 3,
        "quality": ["dark"], "model": "tiny", "runtime": "native", "seconds": {"total_s": 0.5}, "finished": True,
        "pixels_flagged": {}, "place": "0", "input_sha256": "0", "model_id": "0", "software": "flame",
    }  # fmt: skip
    write_json(folder / "detection.json", facts)
    (folder / "quicklook.png").write_bytes(b"\x89PNG")
    return folder


def _read_products(path: Path) -> object:
    """As a second run meets them: nothing in a folder may end a batch."""
    from flame.pipeline.batch_products import read_entry
    from flame.products.index_page import write_index_page

    write_index_page(path / "page.html", "x", "x", [read_entry(path)], {}, "flame")
    return None


def _make_stream(folder: Path) -> Path:
    (folder / "lines.bin").write_bytes(bytes(64))
    return folder / "lines.bin"


_STREAMS: list[object] = []


def _read_stream(path: Path) -> object:
    """The bytes choose what is pushed, the more of them are not zero the wilder: shapes, types and values."""
    from flame.onboard import Asked, Detector, StreamError

    if not _STREAMS:
        _STREAMS.append(Detector(None, "auto", 1, asked=Asked(level="visible")))
    detector = _STREAMS[0]
    assert isinstance(detector, Detector)
    content = path.read_bytes()[:64]
    rng, wild = np.random.default_rng(list(content) or [0]), 0.01 * np.count_nonzero(list(content))

    def pick(usual: object, *others: object) -> object:
        return others[int(rng.integers(len(others)))] if rng.random() < wild else usual

    bands, stream = len(detector.manifest.band_centres_nm), detector.stream(8)
    refused, taken = None, 0
    for _ in range(int(rng.integers(1, 6))):
        usual = (bands, int(rng.integers(0, 5)), 8)
        shape = pick(usual, usual[:2], (), (bands, 1, 9), (3, 2, 8), (bands, 0, 0), (1, *usual))
        kind = str(pick("f4", "f8", "i2", "u2", "?", "c8", "S2", "O", "M8[s]"))
        values = rng.choice([5.0, 6.0, 0.0, np.nan, np.inf, -9999.0, 1e38, 1e300], size=shape)  # type: ignore[call-overload]
        with np.errstate(all="ignore"):
            lines = values.astype(kind) if kind != "M8[s]" else np.zeros(values.shape, kind)
        image = values.shape[1:]
        colour = pick(np.ones((3, *image)), None, "x", np.ones((2, 1, 8)), np.ones((3, 1, 1)))
        valid = pick(None, np.ones(image, bool), np.ones(image), 1, np.ones((1, 8), bool))
        pushed = pick(lines, None, [1.0], "lines")
        try:
            stream.push(pushed, colour, valid)  # type: ignore[arg-type]
            taken += lines.shape[1]
        except StreamError as error:
            refused = error
    given = sum(block.mask.shape[0] for block in stream.close())
    assert given == taken == stream.lines_in, "a line was lost"
    if refused is not None:
        raise refused
    return given


def _product(sensor: str, writer: str, *more: object) -> Callable[[Path], Path]:
    """A satellite's product as the readers' own tests write it, small."""

    def make(folder: Path) -> Path:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "io"))
        files, ground = import_module("product_files"), import_module("product_ground")
        path: Path = getattr(files, writer)(folder, ground.make_ground(sensor, 24, 20), *more)
        return path

    return make


FORMATS: tuple[Format, ...] = (
    Format("npz chip", _make_npz, read_scene),
    Format("npz chip, packed", _make_npz_packed, read_scene),
    Format("ENVI, bil", _make_envi, read_scene),
    Format("ENVI by header, bip", _make_envi_bip, read_scene),
    Format("STARCOP tile, simulated", _make_starcop, starcop.read_tile),
    Format("STARCOP tile", _make_starcop_plain, read_scene),
    Format("OxHyper event", _make_oxhyper, oxhyper.read_tile),
    Format("EMIT", _product("emit", "write_emit"), read_scene),
    Format("AVIRIS-NG with location", _product("aviris-ng", "write_aviris_ng"), read_scene),
    Format("AVIRIS-3", _product("aviris-3", "write_aviris3"), read_scene),
    Format("EnMAP L1B", _product("enmap", "write_enmap"), read_scene),
    Format("EnMAP L1C", _product("enmap", "write_enmap", "L1C"), read_scene),
    Format("PRISMA", _product("prisma", "write_prisma"), read_scene),
    Format("Tanager", _product("tanager-1", "write_tanager"), read_scene),
    Format("GeoTIFF cube", _product("generic-10nm", "write_geotiff"), read_scene),
    Format("CSV index", _make_index, _read_index),
    Format("simulation.json", _make_plan, _read_plan),
    Format("manifest", _make_package, _read_package, leave=("model.onnx", "model.safetensors")),
    Format("model package", _make_package, _read_package),
    Format("native weights", _make_package, _read_native, is_file=False, leave=("model.onnx", "model.json")),
    Format("model.safetensors", _make_weights, _read_weights),
    Format("checkpoint", _make_checkpoint, _read_checkpoint),
    Format("training cache", _make_cache, _read_cache, _resign_cache),
    Format("downlink packets", _make_packets, _read_packets, _resign_packet, is_file=False),
    Format("products of a run", _make_products, _read_products),
    Format("stream", _make_stream, _read_stream, is_file=False),
)
"""All of them, in the order of the table."""
