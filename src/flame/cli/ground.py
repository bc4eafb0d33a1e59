"""`flame ground`: packets decoded, shown and stored; commands signed and sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flame.cli.groups import takes
from flame.cli.options import FIRST_APID, PackagedModel, input_path, output_folder

if TYPE_CHECKING:
    from rich.console import Console

    from flame.onboard.link.commander import Commander
    from flame.onboard.link.ground import GroundStation, Received
    from flame.onboard.link.health import Answer
    from flame.onboard.link.ports import DatagramPort
    from flame.onboard.link.space_packet import PacketSearch

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

FirstApid = Annotated[int, typer.Option(metavar="N", help="First of the spacecraft's APIDs.")]
Out = Annotated[Path, output_folder("Folder for packets, plumes, health, answers and raw blocks.")]


@dataclass(frozen=True)
class Uplink:
    """Who signs commands and where they go; `open` makes ready to send them."""

    key: Path
    to: str
    answers: str
    counter: Path
    spacecraft: int
    first_apid: int
    out: Path
    wait_s: float

    def open(self) -> tuple[Commander, Callable[[bytes, int], Answer | None]]:
        """Who signs, and how a packet is sent and its answer awaited; what else comes meanwhile is stored."""
        from flame.errors import FlameError
        from flame.onboard.link.commander import Commander
        from flame.onboard.link.commands import load_private_key
        from flame.onboard.link.ground import GroundStation
        from flame.onboard.link.health import Answer
        from flame.onboard.link.ports import DatagramPort, parse_place

        commander = Commander(load_private_key(self.key), self.counter, self.spacecraft, self.first_apid)
        address = parse_place(self.to, "udp")
        if address is None:
            raise FlameError(f"'{self.to}': give udp:HOST:PORT, where the spacecraft takes commands")
        port, station = DatagramPort(self.answers), GroundStation(self.out, self.first_apid)

        def exchange(packet: bytes, number: int) -> Answer | None:
            port.send(packet, address)
            for content in _listening(port, self.wait_s):
                told = station.receive(content)
                if isinstance(told, Answer) and told.counter == number:
                    return told
            return None

        return commander, exchange


def uplink_options(
    key: Annotated[Path, input_path("The ground's private key; from `flame ground keys`.")],
    to: Annotated[str, typer.Option("--to", metavar="udp:HOST:PORT", help="Where the spacecraft takes commands.")],
    answers: Annotated[str, typer.Option(metavar="udp:PORT", help="Where its packets arrive.")],
    counter: Annotated[Path, typer.Option(metavar="FILE", help="File that keeps the last command counter.")] = Path(
        "command-counter"
    ),
    spacecraft: Annotated[int, typer.Option(min=0, metavar="N", help="Whom the command is for.")] = 0,
    first_apid: FirstApid = FIRST_APID,
    out: Out = Path("ground-output"),
    wait: Annotated[
        float, typer.Option(min=0.01, metavar="S", help="Seconds to wait for an answer before sending again.")
    ] = 2.0,
) -> Uplink:
    """A group: how commands reach the spacecraft."""
    return Uplink(key, to, answers, counter, spacecraft, first_apid, out, wait)


@app.callback()
def _ground() -> None:
    """The ground's side of `flame fly`."""


@app.command()
def receive(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file of packets, or udp:PORT to listen at.")],
    out: Out = Path("ground-output"),
    first_apid: FirstApid = FIRST_APID,
    seconds: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="Listen so long; until Ctrl-C unless given.")
    ] = None,
) -> None:
    """Decode space packets, show what they tell and store it.

    What the folder has already is not stored again: the same packets once more count as doubled.
    """
    from rich.console import Console

    from flame.onboard.link.ground import GroundStation
    from flame.onboard.link.ports import DatagramPort

    console = Console()
    packets: Iterable[bytes]
    search = None
    if source.startswith("udp:"):
        packets = _listening(DatagramPort(source), seconds)
    else:
        packets = search = _search(Path(source), out, first_apid)
    station = GroundStation(out, first_apid)
    try:
        _take(console, station, packets)
    except KeyboardInterrupt:
        console.print("stopped")
    for block in station.close():
        console.print(f"raw block {block.name}: {block.missing_bytes} of {block.total_bytes} bytes never came")
    _sum_up(console, station, search, out)


def _search(source: Path, out: Path, first_apid: int) -> PacketSearch:
    """The packets of a file, of which at least one must be there."""
    from flame.errors import FlameError
    from flame.onboard.link.channels import apids_of
    from flame.onboard.link.space_packet import PacketSearch

    if not source.is_file():
        raise FlameError(f"{source}: no such file; give a file of packets, or udp:PORT to listen at")
    if source.resolve() == (out / "packets.bin").resolve():
        raise FlameError(f"{source} is where packets are stored; give another folder with --out")
    apids = apids_of(first_apid).values()
    search = PacketSearch(source.read_bytes(), apids)
    if next(iter(search), None) is not None:
        return search
    there = f"no packet of APIDs {min(apids)} to {max(apids)} is in its {source.stat().st_size} bytes"
    if search.foreign:
        others = ", ".join(map(str, sorted(search.foreign)[:5]))
        hint = f"{search.foreign.total()} packets are of APID {others}: give the spacecraft's --first-apid"
    else:
        hint = "give a file that `flame fly --to FILE` wrote, or the spacecraft's --first-apid"
    raise FlameError(f"{source}: {there}; {hint}")


def _sum_up(console: Console, station: GroundStation, search: PacketSearch | None, out: Path) -> None:
    """What came, by channel, and what was no packet of this spacecraft."""
    for channel, counts in station.summary().items():
        restarts = counts.pop("restarts")
        words = ", ".join(f"{count} {name}" for name, count in counts.items())
        again = f"; restarts of the flight: {restarts}" if restarts else ""
        console.print(f"{channel}: {words}{again}", highlight=False)
    damaged, foreign = station.damaged, station.foreign
    if search is not None:
        damaged, foreign = damaged + search.damaged, foreign + search.foreign.total()
    struck = f" ({search.damaged_bytes} bytes)" if search is not None and search.damaged_bytes else ""
    words = f"{damaged} damaged{struck}, {foreign} foreign; stored in {out}"
    console.print(words, markup=False, highlight=False, soft_wrap=True)


@app.command()
def keys(out: Annotated[Path, output_folder("Folder for the pair.")] = Path("keys")) -> None:
    """Make a pair of keys: the private one signs commands, the public one flies."""
    from flame.onboard.link.commands import make_keys

    private, public = make_keys(out)
    typer.echo(f"{private}: keep it on the ground, and secret\n{public}: give it to `flame fly --key`")


@app.command()
@takes(uplink=uplink_options)
def command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND", help="threshold, core, mode, link-budget, tell-health, self-test or roll-back."
        ),
    ],
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="What it takes, if anything.")] = None,
    *,
    uplink: Uplink,
) -> None:
    """Sign a command, send it until it is answered, and print the answer; exit code 1 if it is refused."""
    from flame.errors import FlameError
    from flame.onboard.link.commander import body_of
    from flame.onboard.link.commands import CommandKind

    known = [kind for kind in CommandKind if not kind.name.startswith("UPLOAD")]
    kind = next((kind for kind in known if kind.name.lower().replace("_", "-") == what), None)
    if kind is None:
        words = ", ".join(kind.name.lower().replace("_", "-") for kind in known)
        raise FlameError(f"no command '{what}'; known are {words}, and `flame ground upload`")
    commander, exchange = uplink.open()
    _say(commander.ask(exchange, kind, body_of(kind, value)))


@app.command()
@takes(uplink=uplink_options)
def upload(model: PackagedModel = None, *, uplink: Uplink) -> None:
    """Upload a model in signed pieces and have it run once it has passed its self-test on board."""
    from rich.console import Console

    from flame.cli.progress import counting
    from flame.onboard import load_model
    from flame.onboard.link.model_store import bundle_model

    content = bundle_model(load_model(model))
    commander, exchange = uplink.open()
    with counting(Console(), "pieces", -(-len(content) // commander.piece_bytes)) as step:
        answer = commander.upload(exchange, content, lambda _: step())
    _say(answer)


def _say(answer: Answer) -> None:
    from flame.onboard.link.health import Outcome

    typer.echo(f"{answer.outcome.name.lower()}: {answer.reason}")
    if answer.outcome is not Outcome.DONE:
        raise typer.Exit(1)


def _listening(port: DatagramPort, seconds: float | None) -> Iterator[bytes]:
    ends_at = None if seconds is None else time.monotonic() + seconds
    while ends_at is None or time.monotonic() < ends_at:
        yield from port.waiting(0.2 if ends_at is None else min(0.2, max(ends_at - time.monotonic(), 0.0)))


def _take(console: Console, station: GroundStation, packets: Iterable[bytes]) -> None:
    for packet in packets:
        told = station.receive(packet)
        if told is not None:
            console.print(_words(told), markup=False, highlight=False)


def _words(told: Received) -> str:
    """One line for a person."""
    from flame.onboard.downlink import PlumePacket
    from flame.onboard.link.ground import StoredBlock
    from flame.onboard.link.health import Health

    if isinstance(told, PlumePacket):
        return (
            f"plume {told.plume} of scene {told.scene}: row {told.centroid_row:.0f}, column {told.centroid_col:.0f}, "
            f"{told.area_px} pixels, peak {told.peak_ppm_m:.0f} ppm m, confidence {told.confidence:.2f}"
        )
    if isinstance(told, StoredBlock):
        return f"raw block {told.name}: {told.total_bytes} bytes, whole"
    if isinstance(told, Health):
        return (
            f"health: {told.running_s:.0f} s, {told.lines} lines ({told.bad_lines} bad), {told.tiles} tiles, "
            f"{told.redone} redone, {told.corrected} corrected, {told.flagged} flagged, {told.tile_ms:.0f} ms a tile, "
            f"{told.memory_mb:.0f} MB, {told.temperature_degc:.0f} degC, model {told.model.hex()}, "
            f"threshold {told.threshold:.3f}, {'healthy' if told.healthy else 'SELF-TEST FAILED'}"
        )
    return f"answer to {told.counter}: {told.outcome.name.lower()}: {told.reason}"
