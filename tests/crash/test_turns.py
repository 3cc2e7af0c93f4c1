"""Kill a consumer with a full prefetch at every point of the turn from one message to the next."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from history import Message, ParkedKind
from history.bridge import drive
from tests.crash.helpers.aftermath import FAST, die_and_finish
from tests.crash.victims.turning_victim import DOOMED, POINTS, UUIDS, effects_of
from tests.fixtures.servers.redis import connected
from tests.integration.helpers.consumers import is_drained, parked_in
from triggers import open_provider
from triggers.testing.redis_server import RedisServer

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("turns")]

#: The message that is In Doubt after a death: the doomed one, if it was about to run or ran; or the next one.
IN_DOUBT = {
    "RECEIVED": DOOMED,  # its claim came with the completion of the one before
    "CLAIMED": DOOMED,
    "DECIDED": DOOMED,
    "BEFORE_EFFECT": DOOMED,
    "AFTER_EFFECT": DOOMED,
    "RUN": DOOMED,
    "before-turn": DOOMED,
    "after-turn": "u5",
    "COMPLETED": "u5",
    "ANSWERED": "u5",
}

#: Where the message that is In Doubt has had its effect.
AFTER_THE_EFFECT = {"AFTER_EFFECT", "RUN", "before-turn"}


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Where to find what the killed processes left, and what the other processes did with it."""

    folder: Path
    url: str


@pytest.fixture(scope="module")
def aftermath(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    """Let a process die at every point, and another one finish."""
    folder, url = tmp_path_factory.mktemp("turns"), f"{redis_server.url.rsplit('/', 1)[0]}/7"
    with connected(url) as client:
        client.flushdb()
    provider = open_provider(url)
    for point in POINTS:
        drive(provider.send(point, [Message(uuid=uuid, body="") for uuid in UUIDS]))
    drive(provider.close())
    words = [str(folder), url, FAST]
    die_and_finish(
        "tests.crash.victims.turning_victim", words, lambda: all(is_drained(url, point) for point in POINTS)
    )
    yield Aftermath(folder, url)
    with connected(url) as client:
        client.flushdb()


@pytest.mark.parametrize("point", POINTS)
def test_one_message_is_in_doubt_and_what_else_was_fetched_runs_once(
    aftermath: Aftermath, point: str
) -> None:
    doubtful = IN_DOUBT[point]
    effects = effects_of(aftermath.folder, point).counts()
    parked = parked_in(aftermath.url, point)

    assert [(one.uuid, one.kind) for one in parked] == [(doubtful, ParkedKind.IN_DOUBT)]
    assert {uuid: effects[uuid] for uuid in UUIDS if uuid != doubtful} == dict.fromkeys(
        set(UUIDS) - {doubtful}, 1
    )
    assert effects[doubtful] == (1 if point in AFTER_THE_EFFECT else 0)
    assert is_drained(aftermath.url, point)
