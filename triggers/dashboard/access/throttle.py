"""A growing wait after wrong tokens: for people who sign in, and for programs."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from threading import Lock

#: How many wrong tokens have no consequence: everybody makes typing errors.
FREE = 5

#: The first wait and the longest, in seconds; each further wrong token doubles it.
FIRST, LONGEST = 1.0, 300.0

#: How many addresses are remembered at most; the address that was silent for longest is forgotten.
MOST = 10_000


@dataclass(slots=True)
class _Record:
    wrong: int = 0
    free_at: float = 0.0


class Throttle:
    """Counts wrong tokens by the address that they come from; safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, _Record] = OrderedDict()
        self._lock = Lock()

    def wait(self, address: str) -> float:
        """Return for how many seconds the tokens of an address are ignored; 0 if the next is checked."""
        with self._lock:
            record = self._known.get(_network_of(address))
            return 0.0 if record is None else max(0.0, record.free_at - self._clock())

    def fail(self, address: str) -> None:
        """Note a wrong token."""
        with self._lock:
            network = _network_of(address)
            record = self._known.setdefault(network, _Record())
            self._known.move_to_end(network)
            record.wrong += 1
            if record.wrong > FREE:
                pause = min(LONGEST, FIRST * 2.0 ** min(record.wrong - FREE - 1, 60))
                record.free_at = self._clock() + pause
            if len(self._known) > MOST:
                self._known.popitem(last=False)

    def succeed(self, address: str) -> None:
        """Forget the wrong tokens of an address."""
        with self._lock:
            self._known.pop(_network_of(address), None)


def _network_of(address: str) -> str:
    """Return the address; of IPv6 the first half: one user has all addresses with it."""
    try:
        parsed = ip_address(address)
    except ValueError:  # an in-process client
        return address
    is_mapped = isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None
    return address if parsed.version == 4 or is_mapped else str(int(parsed) >> 64)  # noqa: PLR2004
