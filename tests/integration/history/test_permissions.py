"""For each use of a history, the missing permissions of an account are found without writing anything."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import psycopg
import pytest

from history import NotPermittedError, Verb, open_history
from history.beside.charts import ChartStep
from history.beside.comments import Comment
from history.beside.filters import StoredFilter
from history.bridge import drive
from history.redis.connection.client import RedisClient
from history.redis.connection.permissions import queued
from history.redis.permissions import use_of
from history.store import Capability, Counts, HistoryStore, Refusal, TellingRefusals
from tests.fixtures.beside import kept_in
from tests.fixtures.histories import with_store
from tests.fixtures.servers.postgres import limited_role
from tests.fixtures.servers.redis import connected
from triggers.providers.redis_streams import permissions as of_streams


def refusals(url: str, *capabilities: Capability) -> Sequence[Refusal]:
    """Return the permissions that an account is missing."""
    store = open_history(url)
    assert isinstance(store, TellingRefusals)
    try:
        return drive(store.refusals("book", capabilities or tuple(Capability)))
    finally:
        drive(store.close())


#: An account needs these permissions to connect, to load a script, and to ask for its own permissions.
ASKING = ("+@connection", "+multi", "+discard", "+acl|whoami", "+eval", "+info")


async def use_charts(store: HistoryStore) -> None:
    charts, now = kept_in(store).charts, datetime.now(UTC)

    async def make() -> ChartStep:
        return ChartStep(now, Counts(new=1))

    assert await charts.add("book", now, make)
    assert len(await charts.steps("book")) == 1


async def use_desk(store: HistoryStore) -> None:
    comments, filters = kept_in(store).comments, kept_in(store).filters
    for text, name in (("looked", None), (None, "bob"), ("again", "")):
        await comments.add("book", Comment.checked("1", by="ann", text=text, assigned_to=name))
    assert len(await comments.read("book", "1")) == 3
    assert await comments.assigned("book", ["1"]) == {}
    await filters.save(StoredFilter.checked("old", {"older": "2h"}, by="ann"))
    assert [one.name for one in await filters.read()] == ["old"]
    await filters.remove("old")


USED = {Capability.CHARTS: use_charts, Capability.DESK: use_desk}


class TestRedis:
    @pytest.fixture
    def account(self, redis_url: str) -> str:
        """The URL of an account that a test makes by its rules."""
        return redis_url.replace("redis://", "redis://worker:secret@")

    def rules(self, url: str, *rules: str) -> None:
        with connected(url) as client:
            client.execute_command("ACL", "SETUSER", "worker", "reset", "on", ">secret", *rules)

    def test_every_command_that_is_asked_about_can_be_queued(self, redis_url: str) -> None:
        client = RedisClient.from_url(f"{redis_url}?durability=replicas:1")
        uses = [use_of(client, "book", capability) for capability in Capability]
        uses += [of_streams.use_of("orders", name, waits=True) for name in ("book", None)]
        words = [asked for use in uses for _, asked in use.asked()]

        user, answers = drive(queued(client.client, "key", words))

        drive(client.close())
        assert user == "default"
        assert dict(zip(map(tuple, words), answers, strict=True)) == dict.fromkeys(
            map(tuple, words), b"QUEUED"
        )

    def test_the_permissions_that_the_docs_name_are_enough(self, redis_url: str, account: str) -> None:
        self.rules(redis_url, "~doubtless:*", "+@all", "-@admin", "-@dangerous")

        assert refusals(account) == []

    @pytest.mark.parametrize("capability", USED)
    def test_the_rights_of_a_use_are_enough_for_it_and_not_for_messages(
        self, redis_url: str, account: str, capability: Capability
    ) -> None:
        client = RedisClient.from_url(redis_url)
        use = use_of(client, "book", capability)
        self.rules(redis_url, *ASKING, *(f"+{command.lower()}" for command in use.commands), *use.patterns)
        store = open_history(account)

        refused = refusals(account, Capability.MESSAGES, capability)

        assert [refusal.doing for refusal in refused] == [Capability.MESSAGES]
        drive(USED[capability](store))
        drive(store.close())
        drive(client.close())

    @pytest.mark.parametrize(
        ("rules", "capability", "refused", "remedy"),
        [
            ("~* +@all -xadd", Capability.JOURNAL, "XADD", "ACL SETUSER worker +xadd"),
            ("~* +@all -zadd", Capability.PARKING, "ZADD", "ACL SETUSER worker +zadd"),
            ("~doubtless:{book}* +@all", Capability.CONTROL, "the keys doubtless:{:}:report", "~doubtless:*"),
            ("~* +@all -hsetnx", Capability.BATCHES, "HSETNX", "ACL SETUSER worker +hsetnx"),
            ("~* +@all -getrange", Capability.MESSAGES, "GETRANGE", "ACL SETUSER worker +getrange"),
            ("~* +@all -eval", Capability.UPKEEP, "EVAL", "ACL SETUSER worker +eval"),
        ],
    )
    def test_what_is_refused_is_named_and_nothing_is_written(
        self, redis_url: str, account: str, rules: str, capability: Capability, refused: str, remedy: str
    ) -> None:
        self.rules(redis_url, *rules.split())

        found = {refusal.doing: refusal for refusal in refusals(account)}

        assert found[capability].refused == f"Redis refuses its user 'worker' {refused}"
        assert found[capability].remedy.endswith(remedy)
        with connected(redis_url) as client:
            assert client.dbsize() == 0

    def test_who_may_not_use_multi_is_not_asked_and_writes_nothing(
        self, redis_url: str, account: str
    ) -> None:
        self.rules(redis_url, "~*", "+@all", "-multi")

        with pytest.raises(NotPermittedError, match="multi"):
            refusals(account)

        with connected(redis_url) as client:
            assert client.dbsize() == 0


class TestPostgresql:
    @pytest.fixture
    def role(self, postgres_url: str) -> Iterator[str]:
        """The URL of a role that may connect, and look into the schema of this test."""
        with_store(postgres_url, lambda store: store.check())
        with limited_role(postgres_url) as role:
            yield role

    def test_the_grants_that_are_asked_for_are_enough(self, postgres_url: str, role: str) -> None:
        found = refusals(role)
        with psycopg.connect(postgres_url, autocommit=True) as owner:
            for refusal in found:
                owner.execute(refusal.remedy.encode())

        assert [refusal.doing for refusal in found] == list(Capability)
        assert refusals(role) == []
        store = open_history(role)
        (claim,) = drive(store.claim("book", ["u1"], "worker"))
        drive(store.purge("book"))
        drive(store.control.order(Verb.SUSPEND, ["book"]))
        drive(store.close())
        assert claim.found is None

    def test_a_table_that_cannot_be_made_is_named(self, postgres_url: str, role: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as owner:
            owner.execute("DROP TABLE doubtless_log")

        (refusal,) = refusals(role, Capability.JOURNAL)

        assert "has no doubtless_log yet" in refusal.refused
        assert "GRANT CREATE ON SCHEMA" in refusal.remedy


def test_a_file_that_cannot_be_written_is_no_matter_of_accounts(tmp_path: object) -> None:
    assert refusals(f"sqlite:///{tmp_path}/history.sqlite3") == []
