"""One end of a two-way link as a process: ``link_site SETTINGS NAME COUNT``.

It commits COUNT transactions of its own, each with a row and the operation that tells of it, applies those of
its peer, and ends once everything is applied and confirmed. Killed at
any moment and started again, it goes on.
"""

import sys
import threading
import time
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine.interfaces import DBAPIConnection

from history.bridge import drive
from triggers import trigger
from triggers.consumer import Consumer
from triggers.providers.sqlremote.links import Links
from triggers.providers.sqlremote.publication.publication import Publication

#: Each so many transactions there is a long one, of so many characters.
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
    """Commit what is missing of this end's own transactions, in order."""
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


def main(settings: str, count: int) -> None:
    links = Links.from_file(Path(settings))
    engine = open_engine(links.settings.database)
    publisher = threading.Thread(target=commit_own, args=(engine, count), daemon=True)
    consumer = Consumer([apply], links)

    def watch() -> None:
        while True:
            time.sleep(0.05)
            with engine.connect() as connection:
                found = connection.execute(
                    text("SELECT (SELECT COUNT(*) FROM theirs), confirm_sent FROM sysremoteuser")
                ).one()
            if tuple(found) == (2 * count, count):
                time.sleep(0.5)  # let the last confirmation out
                consumer.stop()
                return

    threading.Thread(target=watch, daemon=True).start()
    publisher.start()
    consumer.run(signals=False)
    drive(links.close())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
