"""What a reader says when a file is not as it should be."""

from __future__ import annotations

from pathlib import Path

from flame.errors import FlameError

__all__ = ["ReaderError", "UnknownFormatError"]


class ReaderError(FlameError):
    """A file that cannot be read: the message names the file, what is wrong with it and how to fix it."""

    def __init__(self, path: Path | str, problem: str, fix: str) -> None:
        self.path = Path(path)
        self.problem = problem
        self.fix = fix
        super().__init__(f"{path}: {problem}; {fix}")

    def __reduce__(self) -> tuple[type[ReaderError], tuple[Path, str, str]]:
        # Errors cross process borders when tiles are read in parallel; the default would pass one argument of three.
        return type(self), (self.path, self.problem, self.fix)


class UnknownFormatError(ReaderError):
    """A file or folder that is not damaged, as far as can be told, but that no reader knows."""
