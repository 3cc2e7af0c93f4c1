"""Messages wait in limbo for another attempt while somebody changes the redelivery of their input."""

import re
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from history import Message, open_history
from history.bridge import drive
from history.store.owners import owner_token
from tests.fixtures.waiting import eventually, patience
from tests.integration.patchbay.components import DOES, Patched, counts, fails, fails_until, seen, wire

pytestmark = pytest.mark.usefixtures("fresh_components")

DELAYED = 'max_attempts = 3, delay = "60s"'


@pytest.fixture
def patched(tmp_path: Path) -> Patched:
    """A Patch Bay with a message that failed once, and waits for its second attempt."""
    wired = wire(tmp_path, f"sqlite:///{tmp_path}/shop.sqlite3", terms=DELAYED)
    wired.prepare()
    DOES.append(fails)
    wired.send(Message(body="hello", uuid="m1"))
    wired.run_at(0)
    assert wired.waiting() == [(1, 60_000)]
    DOES.clear()
    return wired


def rewire(patched: Patched, terms: str) -> None:
    patched.file.write_text(patched.file.read_text().replace(DELAYED, terms))


@pytest.mark.parametrize(
    "terms", ['on_failure = "block", max_attempts = 3, delay = "20ms"', 'on_failure = "fail_fast"']
)
def test_another_on_failure_strands_no_message(patched: Patched, terms: str) -> None:
    rewire(patched, terms)
    DOES.append(fails_until(3))

    patched.run_at(60_000)
    patched.run_at(180_000)

    assert counts("service") == [1, 2, 3]
    assert seen("errors") == []
    assert patched.is_empty()


def test_a_message_in_limbo_keeps_the_number_of_its_attempts(patched: Patched) -> None:
    rewire(patched, 'max_attempts = 1, delay = "60s"')
    DOES.append(fails)

    patched.run_at(60_000)
    patched.run_at(120_000)

    assert counts("service") == [1, 2, 3]
    ((_, letter),) = seen("errors")
    assert letter.properties["doubtless_exception_message"] == "cannot do m1"
    assert patched.is_empty()


def test_an_input_that_lost_its_redelivery_warns_of_waiting_messages(
    patched: Patched, caplog: pytest.LogCaptureFixture
) -> None:
    wiring = patched.file.read_text()
    patched.file.write_text(re.sub(r", redelivery = \{[^}]*\}", "", wiring))
    with patched.bay() as bay:
        bay.run(until_idle=patched.idle)
    assert caplog.text.count("input booking.orders.orders: messages wait in limbo") == 1

    patched.file.write_text(wiring)
    patched.run_at(60_000)

    assert counts("service") == [1, 2]


def test_a_message_that_is_in_progress_elsewhere_waits_in_limbo(patched: Patched) -> None:
    history = open_history(patched.database)
    drive(history.claim("booking.orders.orders", ["m1"], owner_token(), timedelta(minutes=5)))
    drive(history.close())
    patched.now = 60_000

    with patched.bay() as bay:
        running = threading.Thread(target=bay.run)
        running.start()
        try:
            # While a consumer holds it, it has one attempt more.
            eventually(lambda: patched.waiting() not in ([(1, 60_000)], [(2, 60_000)]), patience(10))
        finally:
            bay.stop()
            running.join()

    ((attempts, due),) = patched.waiting()
    assert attempts == 1, "this was not an attempt"
    assert isinstance(due, int)
    assert due > 60_000
    assert counts("service") == [1]
