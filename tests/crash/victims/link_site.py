"""One end of a two-way link as a process: ``link_site SETTINGS COUNT [asyncio]``.

It commits COUNT transactions, each with a row and the operation that reports this row. It applies the
transactions of its peer, and ends when everything is applied and confirmed. You can kill it at any moment:
after a restart it goes on.
"""

import asyncio
import sys
import threading
import time
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection

from history.bridge import drive
from triggers import AsyncConsumer, Consumer, trigger
from triggers.providers.sqlremote.links import Links
from triggers.providers.sqlremote.publication.publication import Publication

#: One in so many transactions is long, with so many characters.
LONG_EVERY, LONG = 100, 200_000

#: The tables of the application.
TABLES = (
    "CREATE TABLE own (n INTEGER PRIMARY KEY, size INTEGER)",
    "CREATE TABLE theirs (place {serial} PRIMARY KEY, n INTEGER, size INTEGER)",
)


def open_engine(url: str) -> Engine:
    """Open the application's own way to its database."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _wait_for_others)
    return engine


def _wait_for_others(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout = 30000")
    cursor.close()


def create_tables(engine: Engine) -> None:
    serial = "SERIAL" if engine.dialect.name == "postgresql" else "INTEGER"
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(text(table.format(serial=serial)))


def commit_own(engine: Engine, count: int) -> None:
    """Commit the missing transactions of this end, in order."""
    publication = Publication("orders")
    while True:
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                # A reader cannot become a writer while others write.
                connection.execute(text("DELETE FROM own WHERE n < 0"))
            done = connection.execute(text("SELECT COUNT(*) FROM own")).scalar_one()
            if done == count:
                return
            payload = "x" * (LONG if done % LONG_EVERY == LONG_EVERY - 1 else done % 50)
            connection.execute(text("INSERT INTO own VALUES (:n, :s)"), {"n": done, "s": len(payload)})
            publication.append(connection, {"n": done, "payload": payload})
            publication.append(connection, {"n": -done, "payload": ""})


@trigger("link:orders", name="apply", transacted=True)
def apply(operations: list[dict[str, int | str]], connection: Connection) -> None:
    for operation in operations:
        row = {"n": operation["n"], "s": len(str(operation["payload"]))}
        connection.execute(text("INSERT INTO theirs (n, size) VALUES (:n, :s)"), row)


@trigger("link:orders", name="apply", transacted=True)
async def apply_in_a_task(operations: list[dict[str, int | str]], connection: AsyncConnection) -> None:
    for operation in operations:
        row = {"n": operation["n"], "s": len(str(operation["payload"]))}
        await connection.execute(text("INSERT INTO theirs (n, size) VALUES (:n, :s)"), row)


async def run_in_tasks(links: Links, over: threading.Event) -> None:
    consumer = AsyncConsumer([apply_in_a_task], links)
    running = asyncio.create_task(consumer.run())
    await asyncio.wait(
        {running, asyncio.create_task(asyncio.to_thread(over.wait))}, return_when="FIRST_COMPLETED"
    )
    consumer.stop()
    await running


def stop_when(over: threading.Event, consumer: Consumer) -> None:
    over.wait()
    consumer.stop()


def main(settings: str, count: int, shell: str = "blocking") -> None:
    links = Links.from_file(Path(settings))
    engine = open_engine(links.settings.database)
    publisher = threading.Thread(target=commit_own, args=(engine, count), daemon=True)
    over = threading.Event()

    def watch() -> None:
        while True:
            time.sleep(0.05)
            with engine.connect() as connection:
                found = connection.execute(
                    text("SELECT (SELECT COUNT(*) FROM theirs), confirm_sent FROM sysremoteuser")
                ).one()
            if tuple(found) == (2 * count, count):
                time.sleep(0.5)  # time for the last confirmation to leave
                over.set()
                return

    threading.Thread(target=watch, daemon=True).start()
    publisher.start()
    if shell == "asyncio":
        asyncio.run(run_in_tasks(links, over))
    else:
        consumer = Consumer([apply], links)
        threading.Thread(target=stop_when, args=(over, consumer), daemon=True).start()
        consumer.run(signals=False)
    drive(links.close())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
