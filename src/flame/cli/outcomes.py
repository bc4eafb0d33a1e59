"""What became of scenes, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flame.cli.app import EXIT_MISTAKE, EXIT_PARTLY_FAILED, print_error

if TYPE_CHECKING:
    from rich.console import Console

    from flame.pipeline.detect import Outcome

__all__ = ["OutcomePrinter", "closing_line", "exit_code"]


def exit_code(good: int, inputs: int) -> int:
    """0 if all inputs went well, 3 if some did, 1 if none did."""
    if good == inputs:
        return 0
    return EXIT_PARTLY_FAILED if good else EXIT_MISTAKE


def closing_line(done: str, good: int, report: Path, there_before: bool) -> str:
    """The last line of a batch: how much was done, and where to read of it if this run wrote of it.

    Args:
        done: How much was done.
        good: How many inputs went well.
        report: The page over all.
        there_before: Whether an earlier run had left one.
    """
    if not report.exists():
        return done
    if not good and there_before:
        return f"{done}; report and tables of an earlier run are left as they were: {report}"
    return f"{done}: {report}"


class OutcomePrinter:
    """Prints a line for each scene and counts those that went well.

    Args:
        console: Where to.
        downlink: Whether to tell what the packets save.
        force: Whether the command has `--force`, to be named with what was finished before.
    """

    def __init__(self, console: Console, downlink: bool = False, force: bool = False) -> None:
        self._console, self._downlink, self._force = console, downlink, force
        self.good = 0

    def told(self, outcome: Outcome) -> None:
        """Prints what became of a scene."""
        self.good += outcome.succeeded
        tell = self._console.print
        plumes = f"{outcome.plumes} plume{'' if outcome.plumes == 1 else 's'}"
        if outcome.failure is not None:
            print_error(outcome.failure)
        elif outcome.state == "kept":
            tell(f"{outcome.source}: {plumes}, finished before{' (--force does it again)' if self._force else ''}")
        else:
            tell(f"{outcome.source}: {plumes}, {outcome.seconds:.2f} s, {outcome.model}")
        for note in outcome.notes:
            tell(f"  {note}")
        if (saved := outcome.downlink) is not None and self._downlink:
            tell(
                f"  downlink: {saved.packet_bytes} bytes of packets for {saved.scene_bytes / 1e6:.1f} MB of "
                f"radiance, {saved.packets_only:,.0f} times less; {saved.with_blocks:.1f} times with the "
                f"{saved.raw_blocks} raw blocks that hold plumes"
            )
