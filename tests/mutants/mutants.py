"""Bugs to plant, one at a time, each with the test that has to find it."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A text of a production file, what it is replaced by, and the test that fails then."""

    file: str
    before: str
    after: str
    killer: str


_ENTRY, _FINDING, _TABLE = "history/entry.py", "triggers/pipeline/finding.py", "triggers/detection/table.py"
_TURNS = "tests/unit/history/test_entry.py"
_TICKETS = "tests/scenarios/test_tickets_of_others.py"
_ROWS = "tests/unit/triggers/detection/test_detection.py"

MUTANTS = (
    Mutant(
        _ENTRY,
        "    if entry.state is State.COMPLETED and not (failed and",
        "    if entry.state is State.COMPLETED and (failed and",
        f"{_TICKETS}::test_powertools_typescript_5714",
    ),
    Mutant(
        _ENTRY,
        "    if outcome is None:\n        return None, True\n",
        "    if outcome is None:\n        return entry, True\n",
        f"{_TICKETS}::test_pulsar_5218",
    ),
    Mutant(
        _ENTRY, "entry is None or entry.expires_at <= now", "entry is None or entry.expires_at < now", _TURNS
    ),
    Mutant(
        _ENTRY,
        "return entry if entry.read_at == now else replace(entry, read_at=now)",
        "return entry",
        _TURNS,
    ),
    Mutant(
        _ENTRY,
        "lease_until=None if terms.lease is None else now + terms.lease",
        "lease_until=None",
        f"{_TICKETS}::test_powertools_typescript_5675",
    ),
    Mutant(_ENTRY, "expires_at=now + terms.time_to_live", "expires_at=now + 2 * terms.time_to_live", _TURNS),
    Mutant(_ENTRY, "return entry.fence == fence and owner in {None, entry.owner}", "return True", _TURNS),
    Mutant(
        _ENTRY,
        "    if entry.fence != fence:\n        return entry, False\n",
        "",
        _TURNS,
    ),
    Mutant(
        _ENTRY,
        "        return entry, entry.outcome == outcome\n",
        "        return entry, True\n",
        _TURNS,
    ),
    Mutant(_ENTRY, "        return None, outcome is None\n", "        return None, True\n", _TURNS),
    Mutant(
        _ENTRY,
        "state=State.COMPLETED, outcome=outcome, lease_until=None), True",
        "state=State.COMPLETED, outcome=outcome), True",
        _TURNS,
    ),
    Mutant(
        _ENTRY, "    if entry.batch and least > entry.expires_at:\n        return entry, False\n", "", _TURNS
    ),
    Mutant(
        _ENTRY, "expires_at=max(entry.expires_at, least)), True", "expires_at=entry.expires_at), True", _TURNS
    ),
    Mutant(
        _ENTRY,
        "    return entry, Claim(entry, entry.fence)\n",
        "    return entry, Claim(None, fence)\n",
        _TURNS,
    ),
    Mutant(
        _FINDING,
        "Found.IN_PROGRESS if entry.lease_alive else Found.STARTED",
        "Found.STARTED",
        f"{_TICKETS}::test_powertools_typescript_5675",
    ),
    Mutant(
        _FINDING,
        "Found.IN_PROGRESS if entry.lease_alive else Found.STARTED",
        "Found.IN_PROGRESS",
        f"{_TICKETS}::test_taskiq_redis_131",
    ),
    Mutant(
        _FINDING,
        "Found.IN_PROGRESS if entry.lease_alive else Found.STARTED",
        "Found.NOTHING",
        f"{_TICKETS}::test_powertools_python_8386",
    ),
    Mutant(_TABLE, "(self.counts is None or facts.count in self.counts)", "True", _ROWS),
    Mutant(_TABLE, "and (self.history is None or facts.history in self.history)", "", _ROWS),
    Mutant(_TABLE, "and (self.found is None or facts.found in self.found)", "", _ROWS),
    Mutant(_TABLE, "and (self.words is None or facts.word in self.words)", "", _ROWS),
    Mutant(_TABLE, "and all(getattr(policy, name) == value", "and any(getattr(policy, name) == value", _ROWS),
)
