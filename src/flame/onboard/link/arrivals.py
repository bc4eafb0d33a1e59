"""Which packets of one channel came: new ones, doubles, losses, and flights that were started again."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from hashlib import blake2b

from flame.onboard.link.space_packet import COUNTS

__all__ = ["Arrivals"]

_WINDOW = COUNTS // 2
"""A count that is behind by less than this is an old packet, else a new one."""
_LONGEST_GAP = 1024
"""A count that begins again so many packets before its end is not one round further: the flight was started again."""
_MEMORY = 1 << 17
"""So many packets are told from their doubles."""


class Arrivals:
    """Counts the packets of one channel, which may come late, twice or never.

    A double has the same bytes as a packet before it. A sequence count that is there already with other bytes, or that
    lies behind and was made later, is of a flight that was started again and counts from 0; nothing is lost by that.

    Attributes:
        received: Packets that were new.
        doubled: Packets that had come before.
        restarts: How often the flight was started again.
    """

    def __init__(self) -> None:
        self.received = self.doubled = self.restarts = 0
        self._digests: set[bytes] = set()
        self._in_turn: deque[bytes] = deque()
        self._lost_before = 0
        self._before: datetime | None = None  # when the newest packet of the flight before was made
        self._newest_time: datetime | None = None
        self._newest = self._first = self._here = 0
        # Numbers of this flight, as many as may be told from a new round of the count.
        self._recent: deque[int] = deque(maxlen=_WINDOW)
        self._seen: set[int] = set()

    def know(self, content: bytes) -> bool:
        """Remembers a packet without counting it; False if it was known."""
        digest = blake2b(content, digest_size=8).digest()
        if digest in self._digests:
            return False
        if len(self._in_turn) == _MEMORY:
            self._digests.discard(self._in_turn.popleft())
        self._in_turn.append(digest)
        self._digests.add(digest)
        return True

    def take(self, count: int, content: bytes, time: datetime | None = None) -> bool:
        """Whether this packet is new.

        Args:
            count: Its sequence count.
            content: All of its bytes.
            time: When it was made, if it says so.
        """
        if not self.know(content):
            self.doubled += 1
            return False
        self.received += 1
        if time is not None and self._before is not None and time <= self._before:
            self._lost_before = max(self._lost_before - 1, 0)  # a late one of the flight before
            return True
        number = self._number(count)
        if self._here and self._starts_again(number, time):
            self._begin_again(time)
            number = count
        self._note(number, time)
        return True

    @property
    def lost(self) -> int:
        """Packets between the first and the newest of each flight that have not come."""
        return self._lost_before + self._lost_here

    @property
    def _lost_here(self) -> int:
        return self._newest - self._first + 1 - self._here if self._here else 0

    def _number(self, count: int) -> int:
        """The count with its rounds."""
        if not self._here:
            return count
        ahead = (count - self._newest) % COUNTS
        return self._newest + (ahead if ahead < _WINDOW else ahead - COUNTS)

    def _starts_again(self, number: int, time: datetime | None) -> bool:
        if number in self._seen:
            return True
        if number < self._newest:
            return time is not None and self._newest_time is not None and time > self._newest_time
        next_round = -(-(self._newest + 1) // COUNTS) * COUNTS
        return number >= next_round and next_round - self._newest > _LONGEST_GAP

    def _begin_again(self, time: datetime | None) -> None:
        self.restarts += 1
        self._lost_before += self._lost_here
        # A clock that was set back tells nothing of which flight a packet is.
        later = time is not None and self._newest_time is not None and time > self._newest_time
        self._before = self._newest_time if later else None
        self._newest_time, self._here = None, 0
        self._recent.clear()
        self._seen.clear()

    def _note(self, number: int, time: datetime | None) -> None:
        if not self._here or number > self._newest:
            self._newest, self._newest_time = number, time
        self._first = min(self._first, number) if self._here else number
        self._here += 1
        if len(self._recent) == self._recent.maxlen:
            self._seen.discard(self._recent[0])
        self._recent.append(number)
        self._seen.add(number)
