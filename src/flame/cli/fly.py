"""`flame fly`: the flight process, lines in and packets out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flame.cli.options import FIRST_APID, PackagedModel, Runtime, Threads, input_path, output_folder
from flame.cli.outputs import refuse_overwriting

if TYPE_CHECKING:
    from flame.onboard import Manifest


def run(
    lines: Annotated[
        str, typer.Argument(metavar="LINES", help="A file of line frames, tcp:PORT to wait for them, or a scene.")
    ],
    to: Annotated[str, typer.Option(metavar="PLACE", help="Where packets go: udp:HOST:PORT, or a file.")],
    state: Annotated[Path, output_folder("Folder for uploaded models and the command counter.")] = Path("flight-state"),
    commands: Annotated[
        str | None, typer.Option(metavar="udp:PORT", help="Where commands come in; none are taken unless given.")
    ] = None,
    key: Annotated[
        Path | None, input_path("Public key that commands must be signed for; from `flame ground keys`.")
    ] = None,
    model: PackagedModel = None,
    runtime: Runtime = "auto",
    threads: Threads = None,
    rate: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Bytes a second that the link carries. No limit by default.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Bytes that may be sent in all. No limit by default.")
    ] = None,
    raw_block: Annotated[
        int, typer.Option(min=0, max=1024, metavar="N", help="Side of the raw blocks that are sent; 0 for none.")
    ] = 64,
    packet_bytes: Annotated[int, typer.Option(metavar="N", help="Largest packet.")] = 1024,
    first_apid: Annotated[int, typer.Option(metavar="N", help="First of five APIDs.")] = FIRST_APID,
    timed: Annotated[bool, typer.Option("--time/--no-time", help="Put the time into each packet.")] = True,
    spacecraft: Annotated[int, typer.Option(min=0, metavar="N", help="Commands must name this spacecraft.")] = 0,
    scene: Annotated[int, typer.Option(min=0, metavar="N", help="Number of the first scene.")] = 0,
    guard: Annotated[bool, typer.Option("--guard/--no-guard", help="Look for faults in memory.")] = True,
    hang: Annotated[
        float, typer.Option(min=0, metavar="S", help="End the process if a tile takes so many seconds; 0: never.")
    ] = 120.0,
    health: Annotated[float, typer.Option(min=0.1, metavar="S", help="Seconds between health packets.")] = 10.0,
    listen: Annotated[float, typer.Option(min=0, metavar="S", help="Take commands so long after the last line.")] = 0.0,
) -> None:
    """Run the flight process: judge lines as they come, send plumes as CCSDS space packets, take signed commands.

    Sends the plumes that `flame detect --level visible` finds, which with flame-plus need a core; the commands
    threshold, core and mode change what is sent.

    Ends with exit code 75 if the watchdog had to end it: start it again.
    """
    from rich.console import Console

    from flame.errors import FlameError
    from flame.onboard.guard import GuardSettings
    from flame.onboard.link.commands import Verifier, load_public_key
    from flame.onboard.link.flight import FlightProcess, FlightSettings
    from flame.onboard.link.loop import LoopSettings, fly
    from flame.onboard.link.model_store import ModelStore
    from flame.onboard.link.ports import DatagramPort, PacketSink, line_bytes, parse_place
    from flame.onboard.link.queue import QueueSettings
    from flame.onboard.telemetry import find_sensors

    if (commands is None) != (key is None):
        raise FlameError("--commands and --key go together: a command that nobody can check is never carried out")
    if not to.startswith("udp:"):
        refuse_overwriting([Path(to)], [Path(lines), key, None if model is None else Path(model)])
    settings = FlightSettings(
        first_apid=first_apid,
        timed=timed,
        raw_block=raw_block or None,
        scene=scene,
        runtime=runtime,
        threads=threads,
        guard=GuardSettings(hang_s=hang or None) if guard else None,
        queue=QueueSettings(packet_bytes=packet_bytes),
    )
    path = None if parse_place(lines, "tcp") else Path(lines)
    if path is not None and not path.exists():
        raise FlameError(f"{lines}: no such file; give a file of line frames, a scene, or tcp:PORT to wait for lines")
    verifier = None if key is None else Verifier(load_public_key(key), state, spacecraft)
    process = FlightProcess(ModelStore(state, model), settings, verifier, find_sensors())
    facts = process.detector.manifest
    console = Console(stderr=True)
    console.print(f"{facts.name} for {facts.sensor} on {process.detector.runtime}, packets to {to}", markup=False)
    frames = line_bytes(lines) if path is None else _frames(path, facts)
    first = next(frames, b"")  # lines that cannot be read are told before anything is written
    port = None if commands is None else DatagramPort(commands)
    sink = PacketSink(to)
    loop = LoopSettings(rate, budget, health, listen)
    try:
        fly(process, chain([first], frames), sink, port, loop)
    finally:
        sink.close()
        if port is not None:
            port.close()
    end = process.health()
    unsent = ", ".join(f"{count} {name}" for name, count in process.queue.unsent().items() if count)
    console.print(
        f"{end.lines} lines, {end.bad_lines} bad; {process.queue.sent_bytes} bytes sent, {end.dropped} dropped, "
        + (f"never sent: {unsent}" if unsent else "nothing left unsent"),
        highlight=False,
        soft_wrap=True,
    )


def _frames(path: Path, manifest: Manifest) -> Iterator[bytes]:
    """Bytes of line frames; a file that holds none is read as a scene."""
    from flame.onboard.link.line_frames import MAGIC
    from flame.onboard.link.ports import line_bytes

    if _begins_with(path, MAGIC):
        return line_bytes(str(path))
    from flame.io import open_scene
    from flame.pipeline.scene_lines import scene_frames

    return scene_frames(open_scene(path), manifest)


def _begins_with(path: Path, magic: bytes) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(magic)) == magic
