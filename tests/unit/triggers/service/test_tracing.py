"""If tracing is on, handled, answered and sent messages have spans; the tests use OpenTelemetry's SDK."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import propagate, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from history import MemoryHistory, Message, Uuid
from tests.unit.helpers.in_memory import made
from triggers import CARD_NUMBERS, Consumer, Producer, trigger
from triggers.providers.memory import MemoryProvider
from triggers.service import tracing

ORDER = Message(body={"id": 1}, uuid=Uuid("order-1"), correlation_id="talk-1", delivery_count=1)


class Traced:
    """The exported spans, by their names."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.spans if span.name == name]
        return found

    def attributes(self, name: str) -> dict[str, Any]:
        return dict(self.one(name).attributes or {})

    def clear(self) -> None:
        self._exporter.clear()


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # Instead of the process's own provider, which can be set once.
    tracer = provider.get_tracer("doubtless")
    monkeypatch.setattr(tracing, "tracer", tracer)
    yield Traced(exporter)
    provider.shutdown()


def test_a_message_has_a_span_that_says_what_became_of_it(traced: Traced) -> None:
    below: list[str] = []

    @trigger("orders", name="book", history=MemoryHistory(), tracing=True)
    def book(order: dict[str, int]) -> None:
        with tracing.tracer.start_as_current_span("booking"):
            below.append(str(order["id"]))

    book.handle(ORDER)

    span, inner = traced.one("process orders"), traced.one("booking")
    assert below == ["1"]
    assert span.kind is SpanKind.CONSUMER
    assert parent_of(inner) == id_of(span)
    attributes = traced.attributes("process orders")
    assert attributes.pop("doubtless.fence") > 0
    assert attributes == {
        "messaging.system": "doubtless",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.message.id": "order-1",
        "messaging.message.conversation_id": "talk-1",
        "messaging.message.delivery_count": 1,
        "doubtless.trigger": "book",
        "doubtless.status": "NEW",
        "doubtless.row": attributes["doubtless.row"],
        "doubtless.executed": True,
        "doubtless.attempts": 1,
        "doubtless.parked": False,
        "doubtless.rejected": False,
    }


def test_a_duplicate_says_so(traced: Traced) -> None:
    book = made(lambda: None, tracing=True)

    book.handle(ORDER)
    traced.clear()
    book.handle(ORDER)

    attributes = traced.attributes("process orders")
    assert (attributes["doubtless.status"], attributes["doubtless.executed"]) == ("DUPLICATE", False)


def test_a_failure_is_an_error_with_its_exception(traced: Traced) -> None:
    @trigger("orders", name="book", history=MemoryHistory(), tracing=True)
    def book(body: bytes | dict[str, int]) -> None:
        raise ValueError("no such customer")

    book.handle(ORDER)

    span = traced.one("process orders")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "no such customer"
    assert traced.attributes("process orders")["error.type"] == "ValueError"
    assert traced.attributes("process orders")["doubtless.parked"] is True
    assert [event.name for event in span.events] == ["exception"]


def test_an_exception_that_cannot_be_told_is_one_all_the_same(traced: Traced) -> None:
    class Mute(Exception):  # noqa: N818  (as short as it can be)
        def __str__(self) -> str:
            raise ValueError

    @trigger("orders", name="book", history=MemoryHistory(), tracing=True)
    def book(order: dict[str, int]) -> None:
        raise Mute

    assert book.handle(ORDER).kind == "failed"

    [event] = traced.one("process orders").events
    assert event.attributes is not None
    assert "cannot say" in str(event.attributes["exception.message"])


def test_what_no_propagator_reads_is_linked_to_nothing(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    baggage_only = CompositePropagator([W3CBaggagePropagator()])  # as OTEL_PROPAGATORS=baggage
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", baggage_only)

    with tracing.tracer.start_as_current_span("around"):
        trigger("orders", name="book", history=MemoryHistory(), tracing=True)(lambda: None).handle(ORDER)

    assert traced.one("process orders").links == ()


def test_a_coroutine_runs_inside_of_its_span(traced: Traced) -> None:
    @trigger("orders", name="book", history=MemoryHistory(), tracing=True)
    async def book(body: bytes | dict[str, int]) -> None:
        await asyncio.sleep(0)
        with tracing.tracer.start_as_current_span("booking"):
            pass

    async def both() -> None:
        second = ORDER.model_copy(update={"uuid": "order-2"})
        await asyncio.gather(book.ahandle(ORDER), book.ahandle(second))

    asyncio.run(both())

    of_messages = {id_of(span) for span in traced.spans if span.name == "process orders"}
    below = {parent_of(span) for span in traced.spans if span.name == "booking"}
    assert (len(of_messages), below) == (2, of_messages)


def test_a_batch_has_one_span_with_counts_and_links(traced: Traced) -> None:
    book = made(lambda: None, tracing=True)

    link = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    sent = [
        Message(body={}, uuid=Uuid(uuid), properties=link if uuid == "a" else {}) for uuid in ("a", "b", "a")
    ]
    book.handle_batch(sent)

    span, attributes = traced.one("process orders"), traced.attributes("process orders")
    assert attributes["messaging.batch.message_count"] == 3
    assert (attributes["doubtless.outcomes.ok"], attributes["doubtless.outcomes.duplicate"]) == (2, 1)
    assert [f"{one.context.trace_id:032x}" for one in span.links] == ["0af7651916cd43dd8448eb211c80319c"] * 2


def test_what_is_sent_and_what_handles_it_know_of_each_other(traced: Traced) -> None:
    provider = MemoryProvider()

    @trigger("orders", name="book", history=MemoryHistory(), tracing=True)
    def book(body: bytes | dict[str, int]) -> None:
        consumer.stop()

    Producer(provider, tracing=True).send("orders", {"id": 1}, uuid="order-1")
    consumer = Consumer([book], provider)
    consumer.run()

    sent, handled, answered = (traced.one(f"{name} orders") for name in ("send", "process", "ack"))
    assert (sent.kind, answered.kind) == (SpanKind.PRODUCER, SpanKind.CLIENT)
    assert [one.context.span_id for one in handled.links] == [id_of(sent)]
    assert parent_of(handled) is None
    assert parent_of(answered) == id_of(handled)
    assert traced.attributes("send orders")["messaging.message.id"] == "order-1"
    assert traced.attributes("ack orders")["messaging.operation.type"] == "settle"


def test_what_a_service_sends_is_below_its_message(traced: Traced) -> None:
    producer = Producer("memory://", tracing=True)

    @trigger("orders", name="book", history=MemoryHistory(), tracing=True)
    def book(body: bytes | dict[str, int]) -> None:
        producer.send("bookings", b"x")

    book.handle(ORDER)

    assert parent_of(traced.one("send bookings")) == id_of(traced.one("process orders"))


def test_without_it_nothing_is_traced(traced: Traced) -> None:
    @trigger("orders", name="book", history=MemoryHistory())
    def book(body: bytes | dict[str, int]) -> None: ...

    book.handle(ORDER)
    sent = Producer("memory://").send("orders", b"x")

    assert traced.spans == []
    assert "traceparent" not in sent.message.properties


def test_without_it_the_library_is_not_even_imported() -> None:
    program = (
        "import sys; from triggers import trigger, Message, Producer\n"
        "@trigger('orders', name='book', history='memory://')\n"
        "def book(body: bytes) -> None: ...\n"
        "book.handle(Message(body=b'x', uuid='order-1')); Producer('memory://').send('orders', b'x')\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_span_that_nobody_wants_costs_no_attributes() -> None:
    @trigger("orders", name="book", history=MemoryHistory(), tracing=True)
    def book(body: bytes | dict[str, int]) -> None:
        assert not trace.get_current_span().is_recording()

    assert book.handle(ORDER).executed


def test_a_span_says_of_an_error_what_the_rules_leave(traced: Traced) -> None:
    @trigger("orders", name="book", history=MemoryHistory(), tracing=True, redact=CARD_NUMBERS)
    def book(order: dict[str, int]) -> None:
        raise ValueError("4111 1111 1111 1111 is declined")

    book.handle(ORDER)

    span = traced.one("process orders")
    assert "4111" not in span.to_json()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "(redacted: card number) is declined"
    [event] = span.events
    assert event.name == "exception"
    assert "ValueError: (redacted: card number)" in str((event.attributes or {})["exception.stacktrace"])


@pytest.mark.parametrize("form", ["blocking", "asyncio"])
def test_what_passes_through_a_span_is_told_as_the_rules_leave_it(
    traced: Traced, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ValueError("4111 1111 1111 1111 is declined")

    @trigger("orders", name="book", history=MemoryHistory(), tracing=True, redact=CARD_NUMBERS)
    def book(order: dict[str, int]) -> None: ...

    monkeypatch.setattr("triggers.pipeline.pipeline.MessagePipeline._detect_and_run", broken)
    with pytest.raises(ValueError, match="4111"):
        book.handle(ORDER) if form == "blocking" else asyncio.run(book.ahandle(ORDER))

    span = traced.one("process orders")
    assert "4111" not in span.to_json()
    assert span.status.status_code is StatusCode.ERROR
