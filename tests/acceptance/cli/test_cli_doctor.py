"""``doubtless doctor`` reports each problem of a set-up separately, and changes nothing."""

import json
from pathlib import Path

import pytest

from history.sql.database import check
from tests.acceptance.command_line import Answer
from tests.acceptance.in_process import InProcess
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.sqs_server import ACCOUNT, SqsServer
from triggers.cli.checks import stores
from triggers.testing.redis_server import RedisServer, free_port

SHOP = """
from datetime import timedelta
from triggers import trigger

@trigger("orders", name="book"{settings})
def book(body: dict) -> None:
    raise SystemExit("doctor runs nothing")
"""


MEMORY = ("--history", "memory://")


class Clinic:
    """``doubtless doctor clinic --json``, in a folder with a module ``clinic`` of one trigger."""

    def __init__(self, doubtless: InProcess) -> None:
        self.doubtless, self.folder = doubtless, doubtless.folder
        self.write()

    def __call__(self, *words: str, **settings: str) -> Answer:
        return self.doubtless("doctor", "clinic", *words, "--json", **settings)

    def write(self, settings: str = "") -> None:
        """Write the module. Its trigger has these settings."""
        (self.folder / "clinic.py").write_text(SHOP.format(settings=settings and f", {settings}"))


@pytest.fixture
def clinic(doubtless: InProcess) -> Clinic:
    return Clinic(doubtless)


def levels(rows: list[dict[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["of"], set()).add(row["level"])
    return found


def test_a_sound_set_up_has_no_findings_and_nothing_stays_behind(clinic: Clinic, redis_url: str) -> None:
    answer = clinic("--provider", redis_url, "--history", redis_url)

    assert answer.code == 0
    found = levels(answer.json)
    assert found["provider"] == found["trigger book"] == found["local parking file"] == {"ok"}
    assert not [row for row in answer.json if "claims" in row["finding"] and row["level"] == "PROBLEM"]
    stats = clinic.doubtless("history", "stats", "--history", redis_url, "--json")
    assert [(row["started"], row["completed"]) for row in stats.json if row["trigger"] == "book"] == [(0, 0)]


def test_without_a_server_it_makes_no_file(clinic: Clinic) -> None:
    answer = clinic.doubtless("doctor", "clinic")

    assert answer.code == 0
    assert "messages will be in doubtless.sqlite3" in answer.out
    assert not (clinic.folder / "doubtless.sqlite3").exists()


def test_a_server_that_is_away_hides_no_other_finding(clinic: Clinic, redis_url: str) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    answer = clinic("--provider", redis_url, "--history", away)

    assert answer.code == 1
    found = levels(answer.json)
    assert (found["provider"], found["history of book"]) == ({"ok"}, {"PROBLEM"})
    (row,) = [row for row in answer.json if row["level"] == "PROBLEM"]
    assert "did not answer" in row["finding"] or "unavailable" in row["finding"]
    assert "start the server" in row["remedy"]


def test_a_redis_that_evicts_is_a_problem(clinic: Clinic, private_redis: RedisServer) -> None:
    with connected(private_redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")

    answer = clinic("--provider", private_redis.url, "--history", private_redis.url)

    assert answer.code == 1
    (row,) = [row for row in answer.json if row["level"] == "PROBLEM"]
    assert row["of"] == "history of book"
    assert "allkeys-lru lets Redis forget history" in row["finding"]
    assert "noeviction" in row["remedy"]


def test_what_most_have_so_is_told_and_is_no_warning(clinic: Clinic, private_redis: RedisServer) -> None:
    with connected(private_redis.url) as client:
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "everysec")

    answer = clinic("--history", private_redis.url)

    assert answer.code == 0
    (row,) = [row for row in answer.json if "appendfsync everysec" in row["finding"]]
    assert (row["of"], row["level"]) == ("history of book", "ok")


def test_a_role_that_may_not_write_is_a_problem(clinic: Clinic, private_redis: RedisServer) -> None:
    with connected(private_redis.url) as client:
        client.acl_setuser(
            "reader", enabled=True, passwords=["+secret"], categories=["+@all", "-@write"], keys=["*"]
        )
    url = private_redis.url.replace("redis://", "redis://reader:secret@")

    answer = clinic("--provider", private_redis.url, "--history", url)

    assert answer.code == 1
    assert "PROBLEM" in levels(answer.json)["history of book"]
    assert "secret" not in answer.out + answer.err


def test_settings_of_triggers_that_promise_less_are_named(clinic: Clinic, redis_url: str) -> None:
    clinic.write("in_doubt='execute', redelivery_horizon=timedelta(days=30)")

    answer = clinic("--provider", redis_url, "--history", redis_url)

    assert answer.code == 0
    told = [row["finding"] for row in answer.json if row["level"] == "WARNING".lower()]
    assert any("in_doubt='execute'" in one for one in told)
    assert any("copies may come for 30 days" in one for one in told)


def test_a_history_that_is_slow_or_lives_in_another_time_is_told(
    clinic: Clinic, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SLOW", 0)
    monkeypatch.setattr(stores, "CLOCKS_APART", -stores.CLOCKS_APART)

    answer = clinic("--provider", redis_url, "--history", redis_url)

    told = [row["finding"] for row in answer.json if row["of"] == "history of book"]
    assert any("its clock and this machine's are 0 s apart" in one for one in told)
    assert "warning" in levels(answer.json)["history of book"]


def test_warnings_of_a_database_are_told(
    clinic: Clinic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "FULL", 9)

    answer = clinic("--history", f"sqlite:///{tmp_path}/h.sqlite3")

    assert any("does not sync" in row["finding"] for row in answer.json if row["level"] == "warning")


def test_a_place_for_parking_that_cannot_be_written_is_a_problem(clinic: Clinic) -> None:
    (clinic.folder / "state").write_text("no folder")

    answer = clinic(XDG_STATE_HOME=str(clinic.folder / "state"))

    assert (levels(answer.json)["local parking file"], answer.code) == ({"PROBLEM"}, 1)


def test_sinks_that_cannot_be_are_told(clinic: Clinic) -> None:
    answer = clinic("--sink", "log:", "--sink", "ftp://x")

    assert answer.code == 1
    assert levels(answer.json) | {"sink 1": {"ok"}, "sink 2": {"PROBLEM"}} == levels(answer.json)


def test_a_sink_that_needs_the_provider_is_given_it(clinic: Clinic, redis_url: str) -> None:
    words = ("--provider", redis_url, "--history", redis_url, "--sink", "dead-letter:")

    assert levels(clinic(*words).json)["sink 1"] == {"ok"}


@pytest.mark.prove
def test_a_provider_that_gives_messages_up_before_the_trigger_does_is_a_problem(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqsServer(monkeypatch) as server:
        address = server.client().create_queue(QueueName="orders")["QueueUrl"]
        policy = {"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:123456789012:orders", "maxReceiveCount": 5}
        server.client().set_queue_attributes(
            QueueUrl=address, Attributes={"RedrivePolicy": json.dumps(policy)}
        )

        early = clinic("--provider", server.url, *MEMORY, **ACCOUNT)
        clinic.write("max_delivery_count=4")
        late = clinic("--provider", server.url, *MEMORY, **ACCOUNT)
        nobody = clinic("--provider", server.url, *MEMORY)

    assert early.code == 1
    [problem] = [row for row in early.json if row["level"] == "PROBLEM"]
    assert (problem["of"], problem["remedy"]) == (
        "trigger book",
        "set max_delivery_count to 4 or less, or raise the provider's limit",
    )
    assert not [row for row in late.json if row["level"] == "PROBLEM"]
    [problem] = [row for row in nobody.json if row["level"] == "PROBLEM"]
    assert "AWS_ACCESS_KEY_ID" in problem["remedy"]


def test_what_the_account_may_not_do_is_named_with_the_remedy(clinic: Clinic, redis_url: str) -> None:
    clinic.write("journal=True, keep_result=True")
    with connected(redis_url) as client:
        rules = "reset on >secret ~* &* +@all -zadd -xinfo -pttl"
        client.execute_command("ACL", "SETUSER", "clerk", *rules.split())
    url = redis_url.replace("redis://", "redis://clerk:secret@")

    answer = clinic("--provider", url, "--history", url, "--sink", url)

    assert answer.code == 1
    problems = {
        (row["of"], row["finding"].split(":")[0]): row for row in answer.json if row["level"] == "PROBLEM"
    }
    assert set(problems) == {
        ("provider", "it may not receive from orders"),
        ("history of book", "it may not park messages and decide about them"),
        ("history of book", "it may not report to operators and get their commands"),
        ("history of book", "it may not keep results"),
    }
    parking = problems["history of book", "it may not park messages and decide about them"]
    assert (parking["finding"].rpartition(": ")[2], parking["remedy"]) == (
        "Redis refuses its user 'clerk' PTTL, ZADD",
        "ACL SETUSER clerk +pttl +zadd",
    )
    assert any("it makes and releases claims" in row["finding"] for row in answer.json)
    with connected(redis_url) as client:
        found = b" ".join(client.scan_iter())
    assert not [part for part in (b"parked", b"journal", b"orders") if part in found]


def test_places_for_parking_and_journals_are_looked_at_and_a_server_that_is_away_is_named_once(
    clinic: Clinic, redis_url: str
) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    (clinic.folder / "clinic.py").write_text(
        "from triggers import trigger\n"
        f"one = trigger('orders', name='one', parking={away!r}, journal={away!r})(print)\n"
        "two = trigger('orders', name='two', parking='sqlite:////nowhere/at/all.sqlite3')(print)\n"
        "parking = 'sqlite:///parked.sqlite3'\n"
        f"three = trigger('orders', name='three', parking=parking, journal={redis_url!r})(print)\n"
        "four = trigger('orders', name='four', parking='memory://', journal='redis://x?nope=1')(print)\n"
    )

    answer = clinic("--history", redis_url)

    rows = {row["of"]: row for row in answer.json if row["of"].startswith(("parking", "journal"))}
    assert answer.code == 1
    assert "unavailable" in rows["parking of one"]["finding"]
    assert rows["journal of one"]["finding"].endswith("its server did not answer, see parking of one")
    assert rows["parking of two"]["finding"] == "there is no folder /nowhere/at"
    assert rows["parking of three"]["finding"] == "parked.sqlite3 can be written"
    assert rows["journal of three"]["finding"] == "its account may keep the journal"
    assert rows["parking of four"]["level"] == "warning"
    assert "'nope'" in rows["journal of four"]["finding"]
    assert not (clinic.folder / "parked.sqlite3").exists()


def test_a_server_that_all_share_is_waited_for_once(clinic: Clinic) -> None:
    away = f"127.0.0.1:{free_port()}"
    words = ("--provider", f"redis://{away}/1", "--history", f"redis://clerk:secret@{away}/0")

    answer = clinic(*words, "--sink", f"redis://{away}/0", "--sink", "dead-letter:")

    problems = {row["of"]: row["finding"] for row in answer.json if row["level"] == "PROBLEM"}
    assert "unavailable" in problems.pop("provider")
    assert problems == dict.fromkeys(
        ["history of book", "sink 1", "sink 2"],
        "it was not looked at: its server did not answer, see provider",
    )


def test_guards_receive_from_no_provider(clinic: Clinic, redis_url: str) -> None:
    (clinic.folder / "clinic.py").write_text(
        f"from triggers.guards import protect\ncharge = protect('charge', history={redis_url!r})\n"
    )

    answer = clinic("--provider", redis_url)

    assert answer.code == 0
    assert not [row for row in answer.json if "receive from" in row["finding"]]
    assert any("park messages" in row["finding"] for row in answer.json if row["of"] == "history of charge")


def test_more_connections_than_postgresql_takes_are_a_warning(clinic: Clinic, postgres_url: str) -> None:
    clinic.write("concurrency=20")
    words = ("--provider", postgres_url, "--history", postgres_url)

    few, many = clinic(*words), clinic(*words, "--processes", "30")

    (of_few,), (of_many,) = (
        [row for row in answer.json if row["of"].startswith("connections")] for answer in (few, many)
    )
    assert (few.code, of_few["level"], many.code, of_many["level"]) == (0, "ok", 0, "warning")
    assert "30 processes may need 1290 at a time" in of_many["finding"]
    assert "max_connections" in of_many["finding"]
    assert "--processes" in of_many["remedy"]


def test_the_connection_over_which_guards_report_is_counted_once_for_each_history(
    clinic: Clinic, postgres_url: str
) -> None:
    pools = f"{postgres_url}{'&' if '?' in postgres_url else '?'}connections=2"
    guards = [f"{name} = protect({name!r}, history={pools!r})\n" for name in ("charge", "refund")]
    (clinic.folder / "clinic.py").write_text("from triggers.guards import protect\n" + "".join(guards))

    answer = clinic("--history", postgres_url)

    (row,) = [row for row in answer.json if row["of"].startswith("connections")]
    assert "never open more than 5" in row["finding"]
