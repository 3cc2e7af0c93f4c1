"""A message that kills its process every time is given up after ``max_delivery_count`` deliveries."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from history import Message, ParkedKind
from history.bridge import drive
from tests.crash.helpers.aftermath import DEADLINE, FAST
from tests.crash.victims.poison_service import LIMIT, TRIGGERS
from tests.fixtures.ledger import Ledger
from tests.integration.helpers.consumers import is_drained, parked_in
from triggers import open_provider

pytestmark = pytest.mark.crash

FIRST, *OTHERS = TRIGGERS


@pytest.mark.parametrize("name", [FIRST, *(pytest.param(name, marks=pytest.mark.prove) for name in OTHERS)])
def test_a_message_that_kills_its_process_every_time_is_parked_with_an_event(
    name: str, tmp_path: Path, redis_url: str
) -> None:
    history, events = f"sqlite:///{tmp_path}/history.sqlite3", tmp_path / "events"
    bodies = {"before": "", "bad": "poison", "after": ""}
    provider = open_provider(redis_url)
    drive(provider.send(name, [Message(uuid=uuid, body=body) for uuid, body in bodies.items()]))
    drive(provider.close())
    service = [sys.executable, "-m", "tests.crash.victims.poison_service"]
    words = [*service, name, redis_url + FAST, history, str(events)]
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}

    codes: list[int] = []
    while not codes or codes[-1]:
        codes.append(subprocess.run(words, env=state, timeout=DEADLINE, check=False).returncode)
        assert len(codes) <= LIMIT + 1, "the process still dies at the same message"

    assert codes == [-signal.SIGKILL] * LIMIT + [0]
    assert is_drained(redis_url, name)
    assert Ledger(events).lines() == [(name, "MAX_DELIVERY_COUNT", str(LIMIT + 1))]
    local = tmp_path / "state" / "doubtless" / "parked.sqlite3"
    lots = [history] + [f"sqlite:///{local}"] * local.exists()
    parked = [one for lot in lots for one in parked_in(lot, name)]
    assert [(one.uuid, one.kind) for one in parked] == [("bad", ParkedKind.REJECTED)]
