"""One run of the crash matrix of services that send: send, kill, finish, and look downstream."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from history import Message
from history.bridge import drive
from tests.crash.helpers.aftermath import die_and_finish, impatient
from tests.crash.victims.sending_victim import DESTINATIONS, FAILURES, Case, cases_of, effects_of, left_by
from tests.fixtures.histories import with_store
from triggers import open_provider


@dataclass(frozen=True, slots=True)
class SendsLeft:
    """The result of the processes of one provider: all of them died, then another process finished."""

    folder: Path
    parked: Sequence[str]

    def effects(self, case: Case) -> Counter[tuple[str, ...]]:
        """Count the runs downstream, by destination and order."""
        return Counter(words[1:] for words in effects_of(self.folder).lines() if words[0] == case.name)

    def check(self, case: Case) -> None:
        """Assert that each message ran once, and that none left before a try that succeeded."""
        assert self.effects(case) == dict.fromkeys(_expected(case), 1)
        assert [int(tries) for (tries,) in left_by(self.folder, case).lines() if int(tries) <= FAILURES] == []
        assert self.parked == []


def run_sends(
    folder: Path, server: str, history: str, depth: Callable[[str], int], make: Callable[[str], object]
) -> SendsLeft:
    """Let every process die, and let another one finish.

    ``server`` is the URL of the provider; ``depth`` and ``make`` are as in ``Broker``.
    """
    provider = impatient(server)
    cases = cases_of(provider, history)
    left = SendsLeft(folder, [])
    for name in (*DESTINATIONS, *(case.name for case in cases)):
        make(name)
    opened = open_provider(provider)
    for case in cases:
        drive(opened.send(case.name, [Message(uuid=uuid, body="") for uuid in case.orders]))
    drive(opened.close())

    def settled() -> bool:
        if any(left.effects(case).keys() != _expected(case) for case in cases):
            return False
        return not any(depth(name) for name in (*(case.name for case in cases), *DESTINATIONS))

    die_and_finish("tests.crash.victims.sending_victim", [str(folder), provider, history], settled)
    parked = [one.trigger_name for one in with_store(history, lambda store: store.parking.list())]
    return SendsLeft(folder, parked)


def _expected(case: Case) -> set[tuple[str, ...]]:
    return {(destination, uuid) for destination in DESTINATIONS for uuid in case.orders}
