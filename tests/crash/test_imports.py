"""An import of dead letters is killed at each step: every letter is parked once, and runs once."""

import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing
from uuid import uuid4

import pytest

from history import Message, Uuid, open_history
from history.bridge import drive
from history.store import DecisionKind, OperatorDecision, ParkedLabel
from tests import ROOT
from tests.crash.victims.importing_victim import POINTS
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import PATIENCE
from tests.integration.helpers.rabbitmq_queues import raw
from triggers import open_provider, trigger
from triggers.operations.importing import Import
from triggers.operations.running import planned, run_each
from triggers.pipeline.parking.decisions import Outcomes

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("rabbitmq")]

UUIDS = [f"u{number}" for number in range(20)]


@pytest.mark.parametrize("point", POINTS)
def test_each_letter_runs_once_wherever_the_import_is_killed(
    point: str, rabbitmq_server: RabbitmqServer, redis_url: str
) -> None:
    url, queue = f"rabbitmq://{rabbitmq_server.address}/", f"letters-{uuid4().hex[:8]}"
    provider, store, effects = open_provider(url), open_history(redis_url), Counter[str]()
    with closing(raw(rabbitmq_server)) as connection:
        connection.channel().queue_declare(queue, durable=True)
    drive(provider.send(f"queue:{queue}", [Message(body="x", uuid=Uuid(uuid)) for uuid in UUIDS]))
    victim = [sys.executable, "-m", "tests.crash.victims.importing_victim"]

    killed = subprocess.run(
        [*victim, point, url, redis_url, f"queue:{queue}"], cwd=ROOT, timeout=PATIENCE, check=False
    )

    assert killed.returncode == -signal.SIGKILL

    @trigger("orders", name="book")
    def book(message: Message) -> None:
        effects[message.uuid or ""] += 1

    def run_all() -> None:
        labels = [ParkedLabel.of(one) for one in drive(store.parking.list())]
        outcomes = Outcomes(store.parking, OperatorDecision(kind=DecisionKind.RUN, by="ana"))
        assert all(
            row["closed"] for row in run_each(store.parking, planned(labels, [book])[0], redis_url, outcomes)
        )

    if point != "before park":
        run_all()  # parked letters have run before they come again
    work = Import(destination=f"queue:{queue}", triggers=[book], stores=lambda _: store, until_idle=3)
    receiver = drive(provider.open_receiver(f"queue:{queue}", subscription="letters", name="w"))
    work.run(receiver)
    drive(receiver.close())
    again = Counter(one.uuid for one in drive(store.parking.list()))
    assert set(again.values()) <= {1}
    run_all()
    drive(provider.close())
    drive(store.close())

    assert effects == Counter(UUIDS)
