"""How much memory or disk a store keeps of a message."""

from typing import NamedTuple


class StoreCost(NamedTuple):
    """The bytes that a store keeps of one message, as measured on filled stores.

    ``entry`` is a completed entry, ``result`` the cost of a kept result without its own bytes. An entry may
    exist for ``lingering`` times its time to live: Redis deletes entries in slices of half of it. Until its
    slice has ended, an entry in Redis needs as much as here, and less after that.
    """

    name: str
    entry: int
    result: int
    lingering: float = 1.0


#: Tests fill each of them, and compare.
STORES = (
    StoreCost("redis", entry=26, result=240, lingering=1.5),
    StoreCost("postgresql", entry=374, result=190),
    StoreCost("sqlite", entry=155, result=140),
)


def bytes_of(store: StoreCost, messages: float, result: int | None) -> float:
    """Return the size of the messages in one time to live; ``result`` is the mean size of a kept result."""
    kept = 0 if result is None else store.result + result
    return messages * (store.lingering * store.entry + kept)
