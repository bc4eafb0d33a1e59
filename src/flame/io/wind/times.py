"""Which of a file's times a scene's wind is made of."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from flame.physics import WindError

__all__ = ["time_weights"]

_LONGEST = timedelta(hours=3)


def time_weights(path: Path, times: list[datetime], when: datetime | None) -> list[tuple[int, float]]:
    """Indices and weights of the times before and after a scene; one of them alone if it is near enough.

    Raises:
        WindError: If no time is within three hours, or the scene's own is not known: a wind of any day would fit it.
    """
    if when is None:
        raise WindError(
            f"{path}: its winds have times, and the scene does not say when it was taken; give --wind SPEED,DIRECTION, "
            f"or a table of winds of that day without a time column"
        )
    order = sorted(range(len(times)), key=lambda i: times[i])
    before = [i for i in order if times[i] <= when]
    after = [i for i in order if times[i] > when]
    if before and after and times[after[0]] - times[before[-1]] <= 2 * _LONGEST:
        first, last = before[-1], after[0]
        share = (when - times[first]) / (times[last] - times[first])
        return [(first, 1.0 - share), (last, share)]
    nearest = min(order, key=lambda i: abs(times[i] - when))
    if abs(times[nearest] - when) > _LONGEST:
        raise WindError(
            f"{path}: its nearest wind is of {times[nearest]:%Y-%m-%d %H:%M}, the scene of {when:%Y-%m-%d %H:%M} UTC; "
            f"at most {_LONGEST.total_seconds() / 3600:.0f} hours may lie between"
        )
    return [(nearest, 1.0)]
