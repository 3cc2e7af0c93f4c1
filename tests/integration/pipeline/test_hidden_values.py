"""Database errors quote rows of an atomic service. The log and the parked message do not contain them."""

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from history.bridge import drive
from history.opening import open_history
from triggers import FatalError, Message, trigger

CARD = "4111111111111111"


def test_a_card_number_is_neither_logged_nor_parked_beside_its_message(
    sql_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    @trigger("cards", name="keep-card", history=sql_database, transacted=True)
    def keep(message: Message, connection: Connection) -> None:
        connection.execute(text("CREATE TABLE IF NOT EXISTS cards (number TEXT PRIMARY KEY)"))
        try:
            for _ in range(2):
                connection.execute(text("INSERT INTO cards VALUES (:number)"), {"number": CARD})
        except IntegrityError as error:
            raise FatalError(f"it is there already: {error}") from error

    message = Message(uuid="card-1", body={"number": CARD})
    # Rolled back, and rejected at its next delivery.
    outcomes = [keep.handle(message.model_copy(update={"delivery_count": count})) for count in (1, 2)]

    keep.close()
    store = open_history(sql_database)
    labels = drive(store.parking.list())
    parked = [drive(store.parking.get(label.id)) for label in labels]
    drive(store.close())
    assert outcomes[-1].parked
    assert "INSERT INTO cards" in caplog.text
    assert CARD not in caplog.text
    assert [one is not None and CARD in one.model_dump_json(exclude={"message"}) for one in parked] == [False]
