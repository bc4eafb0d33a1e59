"""The C library built, run and judged beside the Python stream with torch as its network."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy
import torch

from flame.detection import Plume, TileGrid
from flame.models.plus import LEVELS_PPM_M, FlamePlus, PlusSettings
from flame.models.plus.export import DeployedPlus
from flame.onboard import Asked, ModelPackage
from flame.onboard.downlink import PlumePacket
from flame.onboard.link.channels import PacketMaker
from flame.onboard.link.ground import GroundStation
from flame.onboard.link.queue import DownlinkQueue
from flame.onboard.link.space_packet import split_packets
from flame.onboard.manifest import OperatingPoint, PlaneFacts
from flame.onboard.plane_backends import PlaneEngine, PlaneGraph, PlaneJudge
from flame.onboard.stream import LineStream
from flame.onboard.strip import StripEngine
from flame.pipeline.export_plus import plane_batch, plus_package
from flame.prepare.planes import PLANE_INPUTS, PlanePreparer, prepare_planes
from flame.scene import Scene
from flame.simulate import preset, simulate_tile, tile_generator

ROOT = Path(__file__).parents[2]
APID = 0x2A0
CROSS_COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


def unet_model(ground: float = 0.6, **settings: int) -> FlamePlus:
    """A network of random weights whose probabilities are of all sizes; a share `ground` of them are below 0.5."""
    torch.manual_seed(0)
    model = FlamePlus(PlusSettings(backbone="unet", **settings)).eval()
    with torch.no_grad():
        model.weight_head.weight.normal_(0, 0.1)
        model.background_head.weight.normal_(0, 0.1)
        outline = len(LEVELS_PPM_M)
        model.project.weight[outline].mul_(400.0)
        scene = lines_of("emit", 64)
        planes, view = prepare_planes(scene.radiance, scene.bands, scene.valid)
        logit = model(plane_batch(model, planes, view, scene.bands)).outline_logit
        model.project.bias[outline] -= logit.quantile(ground)
    return model


def package_of(model: FlamePlus, tile: int, core_sigmas: float = 0.0) -> ModelPackage:
    return plus_package(model, tile, "unet", {"balanced": OperatingPoint(0.5, core_sigmas)}, {}, {}, "memory")


def lines_of(name: str, size: int, missing: float = 0.0) -> Scene:
    """A simulated scene in its methane bands; some of its pixels are not valid."""
    scene = simulate_tile(tile_generator(3, 1), preset("wide", size=size, sensor_name=name), name).tile.scene.methane()
    holes = np.random.default_rng(0).random(scene.shape) < missing
    return Scene(scene.radiance, scene.bands, scene.valid & ~holes)


def torch_engine(model: FlamePlus, facts: PlaneFacts) -> PlaneEngine:
    """The network in torch as the Python runtime takes it."""
    network = DeployedPlus(model, 0)

    @torch.no_grad()
    def run(inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        maps, score = network(*(torch.from_numpy(np.ascontiguousarray(inputs[name])) for name in PLANE_INPUTS))
        return maps.numpy(), score.numpy()

    return PlaneEngine(PlaneGraph(run), PlaneJudge(facts), "torch")


@dataclass(frozen=True, eq=False)
class Told:
    """What one of the two said of a scene."""

    mask: np.ndarray
    probability: np.ndarray
    packets: dict[int, PlumePacket]


def by_python(
    model: FlamePlus,
    package: ModelPackage,
    scene: Scene,
    folder: Path,
    asked: Asked | None = None,
    most_plume_lines: int = 2048,
) -> Told:
    """The Python stream's rows, and its packets as the ground decodes them."""
    facts = package.manifest.for_bands(scene.bands)
    assert facts.plane_facts is not None
    assert package.weights is not None
    functions = safetensors.numpy.load(package.weights)["functions"]
    shape, grid = (facts.tile, facts.tile), TileGrid.usual(facts.tile)
    how = facts.plane_facts.planes
    preparer = PlanePreparer(how, functions, facts.bands, shape, facts.prepare.pixels, threads=1)
    backend = torch_engine(model, facts.plane_facts)
    engine = StripEngine(facts, backend, preparer, grid, scene.shape[1], forgiving=True)
    stream = LineStream(engine, facts, grid, scene.shape[1], most_plume_lines)
    stream.rule = (asked or Asked(level="visible")).rule_of_lines(facts)
    blocks = stream.push(scene.radiance, None, scene.valid) + stream.close()
    sent = _sent([plume for block in blocks for plume in block.plumes])
    return Told(
        np.concatenate([block.mask for block in blocks]),
        np.concatenate([block.probability for block in blocks]),
        decoded(sent, folder),
    )


def _sent(plumes: list[Plume]) -> bytes:
    queue = DownlinkQueue(PacketMaker(timed=False))
    for number, plume in enumerate(plumes):
        queue.add_plume(plume, 0, number, 64)
    return b"".join(queue.take(1 << 40))


def decoded(received: bytes, folder: Path) -> dict[int, PlumePacket]:
    """Plumes by number, as the ground station reads them; nothing else may be among the bytes."""
    station = GroundStation(folder)
    packets = list(split_packets(received, [APID]))
    assert sum(map(len, packets)) == len(received)
    plumes = [station.receive(packet) for packet in packets]
    station.close()
    assert station.damaged == 0
    assert all(isinstance(plume, PlumePacket) for plume in plumes)
    return {plume.plume: plume for plume in plumes if isinstance(plume, PlumePacket)}


def build(folder: Path, *options: str) -> Path:
    """Compiles library and example into a folder."""
    done = subprocess.run(
        ["make", "-s", "-j2", "-C", ROOT / "c", f"BUILD={folder}", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def cross_build(folder: Path, *options: str) -> Path:
    return build(folder, f"CC={CROSS_COMPILER}", "AR=aarch64-linux-gnu-ar", *options)


def write_lines(path: Path, scene: Scene) -> Path:
    """Lines as the example reads them; pixels that are not valid are NaN."""
    lines = np.where(scene.valid, scene.radiance, np.float32(np.nan)).swapaxes(0, 1)
    path.write_bytes(np.ascontiguousarray(lines, dtype="<f4").tobytes())
    return path


def run_example(
    built: Path, image: bytes, lines: Path, columns: int, folder: Path, emulator: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """The example on lines; packets and mask stand in the folder as `packets.bin` and `mask.bin`."""
    folder.mkdir(exist_ok=True)
    (folder / "model.bin").write_bytes(image)
    files = [folder / name for name in ("model.bin", "packets.bin", "mask.bin")]
    command = [*emulator, built / "example", files[0], lines, files[1], str(columns), files[2]]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def with_checksum(image: bytes) -> bytes:
    """An image whose checksum fits what was changed in it."""
    return image[:16] + zlib.crc32(image[20:]).to_bytes(4, "little") + image[20:]


def has_compiler() -> bool:
    return all(shutil.which(tool) for tool in ("cc", "make", "ar"))
