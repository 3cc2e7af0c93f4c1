"""The webhook of retrieval failure events, against a real HTTP server."""

import base64
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.fixtures.servers.http_server import HANG, HANG_UP
from tests.fixtures.servers.webhook_server import WebhookServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.given_up import assert_it_changed_nothing, doomed, hearing
from tests.unit.helpers.given_up import event
from triggers import ConfigurationError, Message, Retry, on_retrieval_failure
from triggers.events import RetrievalFailureEvent
from triggers.sinks import SinkUnavailableError, WebhookSink
from triggers.sinks.webhook import WebhookUnavailableError

#: Four tries without a wait.
THRICE_MORE = Retry(max_attempts=3, interval=timedelta(0))


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    with WebhookServer() as server:
        yield server


def post(server: WebhookServer, retry: Retry = THRICE_MORE) -> RetrievalFailureEvent:
    told = event()
    sink = WebhookSink(f"{server.url}/hook", retry=retry, timeout=timedelta(seconds=5))
    try:
        sink(told)
    finally:
        sink.close()
    return told


class TestPosting:
    def test_an_event_is_posted_as_a_structured_cloudevent(self, server: WebhookServer) -> None:
        told = post(server)

        [posted] = server.posted
        assert (posted.path, posted.headers["Content-Type"]) == ("/hook", "application/cloudevents+json")
        assert posted.json == told.to_cloudevent()

    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    def test_a_2xx_answer_is_the_end(self, server: WebhookServer, status: int) -> None:
        server.status = status

        post(server)

        assert len(server.posted) == 1

    def test_headers_are_sent_and_the_query_stays(self, server: WebhookServer) -> None:
        sink = WebhookSink(
            f"{server.url}/hook?a=b%20c", headers={"Authorization": "Bearer secret", "X-A": "1"}
        )

        sink(event())
        sink.close()

        [posted] = server.posted
        assert posted.path == "/hook?a=b%20c"
        assert (posted.headers["Authorization"], posted.headers["X-A"]) == ("Bearer secret", "1")

    def test_user_and_password_of_the_url_are_basic_authentication(self, server: WebhookServer) -> None:
        sink = WebhookSink(f"http://some%40body:pass%3Aword@{server.address}/hook")

        sink(event())
        sink.close()

        [posted] = server.posted
        scheme, _, told = posted.headers["Authorization"].partition(" ")
        assert (scheme, base64.b64decode(told)) == ("Basic", b"some@body:pass:word")


class TestTryingAgain:
    @pytest.mark.parametrize("status", [500, 502, 503, 504, 599, 429, HANG_UP])
    def test_what_may_pass_is_tried_again_with_the_same_event(
        self, server: WebhookServer, status: int
    ) -> None:
        server.answers += [status, status]

        post(server)

        assert len(server.posted) == 3
        assert len({posted.json["id"] for posted in server.posted}) == 1

    def test_the_tries_come_to_an_end(self, server: WebhookServer) -> None:
        server.status = 503

        with pytest.raises(SinkUnavailableError, match=r"the webhook at http://127.* \(HTTP 503\)"):
            post(server)

        assert len(server.posted) == 1 + THRICE_MORE.max_attempts

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 410, 413, 422, 301, 302, 307, 308])
    def test_any_other_answer_is_final(self, server: WebhookServer, status: int) -> None:
        server.status = status
        server.headers = {"Location": f"{server.url}/elsewhere"}

        with pytest.raises(ConfigurationError, match=f"answered HTTP {status}; correct its URL or headers"):
            post(server)

        assert len(server.posted) == 1

    def test_a_server_that_does_not_answer_in_time_is_tried_again(self, server: WebhookServer) -> None:
        server.answers += [HANG]
        sink = WebhookSink(server.url, retry=THRICE_MORE, timeout=timedelta(seconds=0.1))

        sink(event())
        sink.close()

        assert len(server.posted) == 2

    def test_retry_after_is_waited_for(self, server: WebhookServer, caplog: pytest.LogCaptureFixture) -> None:
        server.answers += [429]
        server.headers = {"Retry-After": "1"}

        post(server)

        assert len(server.posted) == 2
        assert "(HTTP 429): trying again in 1.0 s" in caplog.text

    @pytest.mark.parametrize("retry_after", [None, "3000"], ids=["backed off", "asked to"])
    def test_closing_ends_the_pause_between_two_tries(
        self, server: WebhookServer, retry_after: str | None, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.status = 503
        server.headers = {} if retry_after is None else {"Retry-After": retry_after}
        interval = timedelta(seconds=2000 if retry_after is None else 0)
        retry = Retry(max_attempts=3, interval=interval, max_interval=timedelta(hours=1))
        sink = WebhookSink(server.url, retry=retry)
        subscription = on_retrieval_failure("doomed", synchronous=False)(sink)

        doomed().handle(Message(body="b", uuid="given-up"))
        eventually(lambda: f"trying again in {retry_after or 2000}.0 s" in caplog.text)
        subscription.cancel()
        sink.close()

        assert subscription.flush()
        assert len(server.posted) == 1
        assert "the retrieval failure handler WebhookSink failed" in caplog.text

    @pytest.mark.parametrize(
        "later",
        ["3600", "9" * 400, format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)],
        ids=["seconds", "for ever", "date"],
    )
    def test_a_retry_after_beyond_the_longest_pause_ends_the_tries(
        self, server: WebhookServer, later: str
    ) -> None:
        server.status = 503
        server.headers = {"Retry-After": later}

        with pytest.raises(WebhookUnavailableError) as failure:
            post(server)

        assert len(server.posted) == 1
        assert failure.value.retry_after is not None
        assert failure.value.retry_after > THRICE_MORE.max_interval.total_seconds()

    @pytest.mark.parametrize(
        "nonsense",
        ["soon", "-1", "1.5", "²", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 -0000"],
    )
    def test_nonsense_and_the_past_do_not_count(self, server: WebhookServer, nonsense: str) -> None:
        server.answers += [503]
        server.headers = {"Retry-After": nonsense.encode().decode("latin-1")}

        post(server)

        assert len(server.posted) == 2

    def test_a_closed_sink_says_so(self, server: WebhookServer) -> None:
        sink = WebhookSink(server.url)
        sink.close()
        sink.close()

        with pytest.raises(WebhookUnavailableError, match="the sink is closed"):
            sink(event())

        assert server.posted == []


class TestSecrets:
    @pytest.mark.parametrize("status", [503, 404, HANG_UP])
    def test_nothing_secret_is_logged_when_it_fails(
        self, server: WebhookServer, status: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.status = status
        sink = WebhookSink(
            f"http://user:secret1@{server.address}/secret2?key=secret3",
            headers={"Authorization": "secret4"},
            retry=Retry(),
        )

        with (
            hearing(sink),
            caplog.at_level(logging.INFO, "triggers"),
            caplog.at_level(logging.WARNING, "httpx"),
        ):
            outcome = doomed().handle(Message(body="secret5", uuid="given-up"))

        assert_it_changed_nothing(outcome)
        assert f"the webhook at http://{server.address}" in caplog.text
        assert "secret" not in caplog.text

    def test_nor_a_header_that_cannot_be_sent(
        self, server: WebhookServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        with hearing(WebhookSink(server.url, headers={"Authorization": "secret\n"})):
            outcome = doomed().handle(Message(body="b", uuid="given-up"))

        assert_it_changed_nothing(outcome)
        assert "a header cannot be sent as it is" in caplog.text
        assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "url", ["", "/hook", "ftp://127.0.0.1/", "http://", "http:///hook", "http://[::1/", "http://host:port/"]
)
def test_what_is_no_url_of_http_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"WebhookSink: its URL is not http\(s\)://"):
        WebhookSink(url)


def test_a_webhook_that_hangs_in_the_background_holds_up_no_message(server: WebhookServer) -> None:
    server.answers += [HANG]
    sink = WebhookSink(server.url, timeout=timedelta(seconds=0.3), retry=Retry())
    subscription = on_retrieval_failure("doomed", synchronous=False)(sink)

    outcome = doomed().handle(Message(body="b", uuid="given-up"))
    told_in_time = subscription.flush(timedelta(0))
    closed = subscription.close()
    sink.close()

    assert_it_changed_nothing(outcome)
    assert not told_in_time
    assert closed
