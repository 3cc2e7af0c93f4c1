"""A service that counts its effects in a file: ``doubtless run shop``."""

from pathlib import Path

from history import MemoryHistory
from triggers import Delivery, trigger


@trigger("orders", name="book-order", history=MemoryHistory())
def book(body: bytes, delivery: Delivery) -> None:
    """Write the uuid down."""
    with Path("books.txt").open("a", encoding="utf-8") as books:
        books.write(f"{delivery.uuid}\n")
