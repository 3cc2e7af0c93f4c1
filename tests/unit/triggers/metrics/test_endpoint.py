"""A consumer tells monitoring its metrics, whether it is alive, and whether it is ready."""

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from time import monotonic

import pytest
from prometheus_client.parser import text_string_to_metric_families

from history.errors import ConfigurationError
from history.store.control import Counts, TriggerState
from tests import ROOT
from triggers.metrics.endpoint import Address, Endpoint, address_of
from triggers.metrics.exposition import ConsumerCollector
from triggers.metrics.watched import HUNG_AFTER, Watched

#: Names of metrics, except the metrics of Spark queries, which have another test.
OURS = r"doubtless_(?!spark_)[a-z_]+"

DASHBOARD_PAGE = ROOT / "docs" / "how-to" / "use-the-dashboard.md"

ANY_PORT = Address("127.0.0.1", 0)


@dataclass
class Book:
    name: str = "book"
    state: TriggerState = TriggerState.RUNNING
    suspended: str | None = None
    away: str | None = None
    history_away: str | None = None
    needs_history: bool = True
    busy: int = 0
    longest: float = 0.0
    not_parked: int = 0
    parked_locally: int = 0
    counts: Counts = field(default_factory=Counts)

    def statistics(self) -> Counts:
        return self.counts


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def watched(book: Book) -> Watched:
    return Watched([book], monotonic())


@pytest.fixture
def endpoint(watched: Watched) -> Iterator[Endpoint]:
    with Endpoint(ANY_PORT, watched, ConsumerCollector(watched)) as endpoint:
        yield endpoint


def ask(endpoint: Endpoint, path: str, verb: str = "GET", **headers: str) -> tuple[int, str, str]:
    connection = HTTPConnection(*endpoint.address, timeout=60)
    connection.request(verb, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.headers["Content-Type"], answer.read().decode()
    connection.close()
    return found


def samples(endpoint: Endpoint) -> dict[tuple[str, ...], float]:
    """Return the values of all metrics by name and labels; labels are in alphabetical order."""
    _, _, text = ask(endpoint, "/metrics")
    return {
        (sample.name, *dict(sorted(sample.labels.items())).values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_what_was_counted(endpoint: Endpoint, book: Book) -> None:
    book.counts = (
        Counts(
            new=7, duplicate=3, in_doubt=2, rejected=1, unreadable=4, failed=5, recovered=6, runs=9, retried=2
        )
        + Counts(refused=11)
        + Counts(microseconds=1_500_000)
    )
    book.busy, book.not_parked, book.parked_locally = 8, 12, 13

    assert samples(endpoint) == {
        ("doubtless_messages_total", "book", "new"): 7,
        ("doubtless_messages_total", "book", "duplicate"): 3,
        ("doubtless_messages_total", "book", "in_doubt"): 2,
        ("doubtless_messages_total", "book", "rejected"): 1,
        ("doubtless_unreadable_total", "book"): 4,
        ("doubtless_failed_total", "book"): 5,
        ("doubtless_recovered_total", "book"): 6,
        ("doubtless_retried_total", "book"): 2,
        ("doubtless_refused_total", "book"): 11,
        ("doubtless_not_parked_total", "book"): 12,
        ("doubtless_parked_locally", "book"): 13,
        ("doubtless_service_seconds_count", "book"): 9,
        ("doubtless_service_seconds_sum", "book"): 1.5,
        ("doubtless_trigger_state", "running", "book"): 1,
        ("doubtless_trigger_state", "suspended", "book"): 0,
        ("doubtless_trigger_state", "disabled", "book"): 0,
        ("doubtless_provider_up", "book"): 1,
        ("doubtless_history_up", "book"): 1,
        ("doubtless_deliveries_in_progress", "book"): 8,
        ("doubtless_oldest_delivery_seconds", "book"): 0.0,
    }


def test_a_name_with_anything_in_it_stays_one_label(endpoint: Endpoint, book: Book) -> None:
    book.name = 'a "quoted"\nname \\ with {braces} and ü'

    assert ("doubtless_provider_up", book.name) in samples(endpoint)


def test_who_asks_for_open_metrics_gets_them(endpoint: Endpoint) -> None:
    status, kind, text = ask(endpoint, "/metrics", Accept="application/openmetrics-text; version=1.0.0")

    assert status == 200
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_a_consumer_lives_while_its_loop_goes_on(endpoint: Endpoint, watched: Watched) -> None:
    assert ask(endpoint, "/livez")[::2] == (200, "alive\n")

    watched.beat = monotonic() - HUNG_AFTER - 1

    status, _, text = ask(endpoint, "/livez")
    assert (status, text.split(" for ")[0]) == (503, "hung: the consumer's loop has stood still")
    assert ask(endpoint, "/readyz")[0] == 503
    watched.draining = True
    assert ask(endpoint, "/livez")[0] == 200, "while it drains, its last services may take long"


@pytest.mark.parametrize(
    ("what", "ready"),
    [
        ({}, True),
        ({"state": TriggerState.SUSPENDED, "suspended": "the history does not answer"}, False),
        ({"state": TriggerState.DISABLED}, False),
        ({"away": "the Redis server is unavailable"}, False),
    ],
    ids=["running", "suspended", "disabled", "provider away"],
)
def test_it_is_ready_while_one_trigger_receives(
    endpoint: Endpoint, watched: Watched, book: Book, what: dict[str, object], *, ready: bool
) -> None:
    vars(book).update(what)

    status, kind, text = ask(endpoint, "/readyz")

    assert (status, kind) == (200 if ready else 503, "application/json")
    assert json.loads(text) == {
        "ready": ready,
        "draining": False,
        "triggers": {
            "book": {
                "state": book.state.lower(),
                "reason": book.suspended,
                "provider_away": book.away,
                "history_away": book.history_away,
                "busy": 0,
                "oldest_delivery_seconds": 0.0,
            }
        },
    }
    watched.triggers = [book, Book("other")]
    assert ask(endpoint, "/readyz")[0] == 200
    watched.draining = True
    assert ask(endpoint, "/readyz")[0] == 503


def test_readiness_tells_for_how_long_a_delivery_has_run(endpoint: Endpoint, book: Book) -> None:
    book.busy, book.longest = 2, 2100.04

    told = json.loads(ask(endpoint, "/readyz")[2])["triggers"]["book"]

    assert (told["busy"], told["oldest_delivery_seconds"]) == (2, 2100.0)


def test_other_paths_name_those_that_there_are(endpoint: Endpoint) -> None:
    assert ask(endpoint, "/health")[::2] == (404, "ask for /metrics, /livez or /readyz\n")
    assert ask(endpoint, "/metrics?name[]=x")[0] == 200
    assert ask(endpoint, "/livez", "HEAD") == (200, "text/plain; charset=utf-8", "")
    assert ask(endpoint, "/livez", "POST")[0] == 501


def test_one_who_asks_and_goes_away_disturbs_nobody(
    endpoint: Endpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    for words in (b"", b"GET /metrics HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00garbage\r\n\r\n"):
        with socket.create_connection(endpoint.address) as line:
            line.sendall(words)

    assert ask(endpoint, "/livez")[0] == 200
    assert capfd.readouterr().err == ""


def test_an_address_that_is_taken_is_named_with_the_remedy(endpoint: Endpoint, watched: Watched) -> None:
    second = Endpoint(endpoint.address, watched, ConsumerCollector(watched))

    with pytest.raises(ConfigurationError, match=r"^metrics: 127.0.0.1:\d+ cannot be listened at .*port"):
        second.__enter__()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9464", Address("127.0.0.1", 9464)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:9464", Address("::1", 9464)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert address_of(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["9464", "", "host", "host:", ":9464", "host:port", "host:99999", "http://host:1", "a@b:1", "h:1/x", 1],
)
def test_what_is_no_address_is_refused(text: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^metrics: .*; write host:port"):
        address_of(text)


def test_the_docs_and_the_grafana_dashboard_name_what_there_is(endpoint: Endpoint) -> None:
    exported = {name for name, *_ in samples(endpoint)}
    page = (ROOT / "docs" / "how-to" / "see-metrics-and-health.md").read_text(encoding="utf-8")
    board = (ROOT / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8")

    named = set(re.findall(OURS, page.replace("`, `_sum`", "` `doubtless_service_seconds_sum`")))
    shown = set(re.findall(OURS, board))

    # The metrics of the dashboard are on another page, and another test compares them with that page.
    of_dashboard = set(re.findall(r"`(doubtless_[a-z_]+)`", DASHBOARD_PAGE.read_text(encoding="utf-8")))
    assert named - of_dashboard == exported
    assert shown == exported | of_dashboard
    assert json.loads(board)["panels"]
