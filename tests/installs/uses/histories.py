"""An atomic service on a SQL history: ``histories.py URL blocking`` or ``histories.py URL asyncio``."""

import asyncio
import sys

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection

from history import open_history
from history.bridge import drive
from triggers import Message, trigger

CREATE = text("CREATE TABLE IF NOT EXISTS books (uuid TEXT)")
BOOK = text("INSERT INTO books VALUES ('one')")


@trigger("orders", name="blocking-books", transacted=True)
def book(body: bytes, connection: Connection) -> None:
    """Book, in the transaction of the history."""
    connection.execute(CREATE)
    connection.execute(BOOK)


@trigger("orders", name="asyncio-books", transacted=True)
async def abook(body: bytes, connection: AsyncConnection) -> None:
    """Do the same, through asyncio."""
    await connection.execute(CREATE)
    await connection.execute(BOOK)


async def through_asyncio(url: str) -> list[str]:
    """Handle a message twice."""
    store = open_history(url).for_asyncio()
    abook.use_default_history(store)
    message = Message(body=b"", uuid="one")
    told = [str((await abook.ahandle(message)).status) for _ in range(2)]
    await store.close()
    return told


def blocking(url: str) -> list[str]:
    """Handle a message twice."""
    store = open_history(url)
    book.use_default_history(store)
    message = Message(body=b"", uuid="one")
    told = [str(book.handle(message).status) for _ in range(2)]
    drive(store.close())
    return told


if __name__ == "__main__":
    url, kind = sys.argv[1:]
    statuses = asyncio.run(through_asyncio(url)) if kind == "asyncio" else blocking(url)
    sys.stdout.write(" ".join(statuses))
