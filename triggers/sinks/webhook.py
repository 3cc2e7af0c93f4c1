"""Retrieval failure events as HTTP POST requests: CloudEvents 1.0, structured mode.

Source: the CloudEvents HTTP protocol binding 1.0.2, section 3.2; RFC 9110, section 10.2.3 for Retry-After.
"""

import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import unquote, urlsplit, urlunsplit

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_after_attempt,
    stop_any,
    stop_when_event_set,
)

from history.errors import ConfigurationError, MissingExtraError
from triggers.events import RetrievalFailureEvent
from triggers.service.failures import Retry
from triggers.sinks.sink import SinkUnavailableError

try:
    import httpx
except ModuleNotFoundError as error:
    raise MissingExtraError("WebhookSink", extra="http", package="httpx") from error

_log = logging.getLogger(__name__)

#: The media type of a CloudEvents document.
CONTENT_TYPE = "application/cloudevents+json"

#: The only answer below 500 that means "not now".
TOO_MANY_REQUESTS = 429

#: The default for how long one step (connecting, sending, waiting for the answer) may take.
DEFAULT_TIMEOUT = timedelta(seconds=10)

#: Five requests within about 15 seconds, plus the time of the requests themselves.
DEFAULT_RETRY = Retry(
    max_attempts=4, interval=timedelta(seconds=1), backoff=2, max_interval=timedelta(seconds=60)
)


class WebhookUnavailableError(SinkUnavailableError):
    """No answer came, or one that means "not now"; ``retry_after`` is in seconds, if the answer had it."""

    def __init__(self, what: str, problem: str, *, retry_after: float | None = None) -> None:
        super().__init__(what, f"posting an event ({problem})")
        self.retry_after = retry_after


class WebhookSink:
    """Posts each event to ``url`` and waits for a 2xx answer; safe between threads.

    No answer, 5xx and 429 are tried again as ``retry`` says, not sooner than Retry-After. If Retry-After is
    longer than ``retry.max_interval``, or for any other answer, it gives up. Redirects are not followed. If
    an answer was lost, the request is sent again: the receiver recognises it by the event's id.

    It blocks, for minutes at worst: subscribe it with ``synchronous=False``. User and password in the URL
    become basic authentication. ``headers`` are sent with each request and never logged; only the host of the
    URL is logged.

    Raises:
        ConfigurationError: the URL is not an http(s) URL.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        retry: Retry = DEFAULT_RETRY,
    ) -> None:
        self._url, self._name, auth = _parsed(url)
        self._closed = threading.Event()
        self._retry = retry
        self._client = httpx.Client(
            auth=auth, headers=headers, timeout=timeout.total_seconds(), follow_redirects=False
        )

    def __call__(self, event: RetrievalFailureEvent) -> None:
        """Post one event.

        Raises:
            WebhookUnavailableError: every request failed in a way that may pass, or the sink is closed.
            ConfigurationError: the server answered that it will not take the event.
        """
        if self._closed.is_set():
            raise WebhookUnavailableError(self._name, "the sink is closed")
        retrying = Retrying(
            stop=stop_any(
                stop_after_attempt(1 + self._retry.max_attempts), stop_when_event_set(self._closed)
            ),
            wait=self._pause,
            retry=retry_if_exception(self._may_pass),
            before_sleep=_say,
            sleep=sleep_using_event(self._closed),
            reraise=True,
        )
        retrying(self._post, event.to_cloudevent_json().encode("ascii"))

    def _post(self, body: bytes) -> None:
        request = self._client.build_request(
            "POST", self._url, content=body, headers={"Content-Type": CONTENT_TYPE}
        )
        try:
            # Only the status of the answer is of use here, and the rest could be long.
            response = self._client.send(request, stream=True)
            response.close()
        except httpx.LocalProtocolError:
            # Its text would hold the header.
            raise ConfigurationError(
                self._name, "a header cannot be sent as it is", "correct the headers"
            ) from None
        except httpx.TransportError as error:
            raise WebhookUnavailableError(self._name, type(error).__name__) from error
        self._judge(response)

    def _judge(self, response: httpx.Response) -> None:
        status = response.status_code
        if httpx.codes.is_success(status):
            return
        if httpx.codes.is_server_error(status) or status == TOO_MANY_REQUESTS:
            asked = _seconds(response.headers.get("Retry-After"))
            raise WebhookUnavailableError(self._name, f"HTTP {status}", retry_after=asked)
        raise ConfigurationError(self._name, f"answered HTTP {status}", "correct its URL or headers")

    def _may_pass(self, error: BaseException) -> bool:
        if not isinstance(error, WebhookUnavailableError):
            return False
        return (error.retry_after or 0) <= self._retry.max_interval.total_seconds()

    def _pause(self, state: RetryCallState) -> float:
        pause = self._retry.pause(state.attempt_number)
        error = None if state.outcome is None else state.outcome.exception()
        asked = error.retry_after if isinstance(error, WebhookUnavailableError) else None
        return max(pause, asked or 0)

    def close(self) -> None:
        """Close the connections; a caller that waits for another try gives up."""
        self._closed.set()
        self._client.close()


def _say(state: RetryCallState) -> None:
    error = None if state.outcome is None else state.outcome.exception()
    _log.warning("%s: trying again in %.1f s", error, state.upcoming_sleep)


def _parsed(url: str) -> tuple[str, str, httpx.BasicAuth | None]:
    """Return the URL without user and password, its part for the log, and the user and password."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (raises if it is not a number)
        host = parts.netloc.rpartition("@")[2]
        bare = urlunsplit(parts._replace(netloc=host))
        httpx.URL(bare)
    except (ValueError, httpx.InvalidURL):
        parts, host, bare = urlsplit(""), "", ""
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError("WebhookSink", "its URL is not http(s)://", "write https://host/path")
    auth = None
    if parts.username is not None:
        auth = httpx.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
    return bare, f"the webhook at {parts.scheme}://{host}", auth


def _seconds(retry_after: str | None) -> float | None:
    """Read a Retry-After, which is a number of seconds or a date; None if it is missing or nonsense."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    aware = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max((aware - datetime.now(UTC)).total_seconds(), 0.0)
