"""What became of scenes, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flame.cli.app import EXIT_MISTAKE, EXIT_PARTLY_FAILED, print_error

if TYPE_CHECKING:
    from rich.console import Console

    from flame.pipeline.detect import Outcome

__all__ = ["OutcomePrinter", "exit_code"]


def exit_code(good: int, inputs: int) -> int:
    """0 if all inputs went well, 3 if some did, 1 if none did."""
    if good == inputs:
        return 0
    return EXIT_PARTLY_FAILED if good else EXIT_MISTAKE


class OutcomePrinter:
    """Prints a line for each scene and counts those that went well.

    Args:
        console: Where to.
        downlink: Whether to tell what the packets save.
    """

    def __init__(self, console: Console, downlink: bool = False) -> None:
        self._console, self._downlink = console, downlink
        self.good = 0

    def told(self, outcome: Outcome) -> None:
        """Prints what became of a scene."""
        self.good += outcome.succeeded
        tell = self._console.print
        plumes = f"{outcome.plumes} plume{'' if outcome.plumes == 1 else 's'}"
        if outcome.failure is not None:
            print_error(outcome.failure)
        elif outcome.state == "kept":
            tell(f"{outcome.source}: {plumes}, finished before (--force does it again)")
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
