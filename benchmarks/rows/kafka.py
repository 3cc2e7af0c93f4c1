"""Compares a consumer on Kafka with hand-written loops, one message at a time and in batches.

The steady state is timed: from the first message that is worked on to the last. The loops poll, note
the uuid with SET NX, and commit or accept. They do not note that a message is completed, so what a crash
leaves behind is lost to them. Consumer groups run on Apache Kafka, if ``make servers`` has installed it.
Share groups run on the mock cluster of Kafka's client.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import confluent_kafka

from benchmarks.bench import Bench
from benchmarks.result import SPEED, Budget, Result, speeds
from benchmarks.rows import floors
from benchmarks.rows.steady import Turns, Work
from benchmarks.servers import scratch
from history.message import Message
from tests.fixtures.servers.apache_kafka_server import AnyKafka, ApacheKafkaServer
from tests.fixtures.servers.kafka_server import KafkaServer
from triggers import trigger
from triggers.consumer import Consumer

#: The messages of a round, for each message of the other rows: more than Kafka's client fetches ahead.
SHARE = 15

#: The consumer fetches so many messages ahead.
PREFETCH = 10

#: More deliveries than will happen, because this broker counts one whenever a connection ends.
LIMIT = 10_000

#: As Any: confluent-kafka has only some types.
_driver = cast("Any", confluent_kafka)

#: The size of a batch. The quick loop also commits after so many messages.
BATCH = 100


@dataclass(slots=True)
class Topic(Work):
    """One competitor's topic, of one partition."""

    kafka: AnyKafka = field(kw_only=True)

    @property
    def topic(self) -> str:
        """The topic of this competitor."""
        return self.steady.destination

    def fill(self, messages: int) -> None:
        """Make the topic, and send so many messages."""
        self.kafka.create(self.topic, 1)
        Work.fill(self, messages)


def _consume_batches(work: Topic, messages: int) -> None:
    """Run a consumer with a service that gets a list."""

    @trigger(work.topic, name=work.topic, history=work.bench.server.url, batch=BATCH)
    def idle(together: list[Message]) -> None:
        for _ in together:
            work.steady.note()
        if len(work.steady.times) == messages:
            consumer.stop()

    consumer = Consumer([idle], work.url)
    consumer.run(signals=True)  # as doubtless run does


def _subscribed(work: Topic, make: Any, **own: Any) -> Any:
    """Return a member of the group of a loop, with its own settings."""
    settings = {"bootstrap.servers": work.kafka.address, "group.id": f"by-hand-{work.topic}", "log_level": 0}
    member = make(settings | {name.replace("_", "."): value for name, value in own.items()})
    member.subscribe([work.topic])
    return member


def _member(work: Topic) -> Any:
    return _subscribed(work, _driver.Consumer, enable_auto_commit=False, auto_offset_reset="earliest")


def _loop(work: Topic, messages: int, commit_after: int) -> None:
    """Poll, note, and commit after so many messages."""
    client: Any = work.bench.bare()
    member = _member(work)
    while len(work.steady.times) < messages:
        record: Any = member.poll(1.0)
        if record is None:
            continue
        floors.claim(client, _message(record))
        work.steady.note()
        if len(work.steady.times) % commit_after == 0:
            member.commit(record, asynchronous=False)
    member.close()


def _loop_of_batches(work: Topic, messages: int) -> None:
    """Take a hundred, note them in one pipeline, and commit."""
    client: Any = work.bench.bare()
    member = _member(work)
    while len(work.steady.times) < messages:
        records: list[Any] = member.consume(BATCH, 0.1)
        if not records:
            continue
        floors.claim_all(client, [_message(record) for record in records])
        for _ in records:
            work.steady.note()
        member.commit(records[-1], asynchronous=False)
    member.close()


def _loop_of_share_group(work: Topic, messages: int) -> None:
    """Poll, note and accept each message."""
    client: Any = work.bench.bare()
    member = _subscribed(
        work, _driver.ShareConsumer, share_acknowledgement_mode="explicit", max_poll_records=100
    )
    while len(work.steady.times) < messages:
        for record in member.poll(1.0):
            floors.claim(client, _message(record))
            work.steady.note()
            member.acknowledge(record)
    member.close()


def _message(record: Any) -> Message:
    return Message(body=record.value(), uuid=dict(record.headers())["uuid"].decode(), delivery_count=1)


#: The competitors in a consumer group, and in a share group.
GROUP: Mapping[str, Callable[[Topic, int], None]] = {
    "consumer": partial(Topic.consume, prefetch=PREFETCH),
    "batches": _consume_batches,
    "loop": partial(_loop, commit_after=1),
    "loop of a hundred": partial(_loop, commit_after=BATCH),
    "loop of batches": _loop_of_batches,
}
_SHARE_GROUP: Mapping[str, Callable[[Topic, int], None]] = {
    "consumer": partial(
        Topic.consume, prefetch=PREFETCH, query=f"?share=true&fetch=100&delivery_limit={LIMIT}"
    ),
    "loop": _loop_of_share_group,
}


def _topics(bench: Bench, kafka: AnyKafka) -> Callable[[], Topic]:
    return partial(Topic, bench, f"kafka://{kafka.address}", kafka=kafka)


def measure(bench: Bench) -> Iterable[Result]:
    """Let consumers and loops take turns."""
    rounds = Turns(bench, "consumer on Kafka", bench.fewer(10), bench.effort.messages * SHARE)
    with scratch() as folder:
        is_real = ApacheKafkaServer.installed()
        broker = "Apache Kafka" if is_real else "Kafka's mock"
        with ApacheKafkaServer(folder) if is_real else KafkaServer() as kafka:
            times = rounds.run(_topics(bench, kafka), GROUP)
    for ours, floor, text, least in (
        ("consumer", "loop", "poll, SET NX, commit of each", 1.0),
        ("consumer", "loop of a hundred", "poll, SET NX, commit of each hundred", 0.8),
        ("batches", "loop of batches", "a hundred: consume, SET NX in one pipeline, commit", 0.8),
    ):
        size = f"batch={BATCH}" if ours == "batches" else f"batch=1, prefetch={PREFETCH}"
        # On the mock a commit takes no time.
        budget = Budget(least, SPEED, at_least=True) if is_real else None
        what = f"consumer on {broker}, consumer group, {size}"
        yield speeds(times, ours, floor, what=what, beside=text, budget=budget)
    with KafkaServer(brokers=2) as mock:
        mock.deliver_at_most(LIMIT)
        times = rounds.run(_topics(bench, mock), _SHARE_GROUP)
    what = f"consumer on Kafka's mock, share group, batch=1, prefetch={PREFETCH}"
    yield speeds(times, "consumer", "loop", what=what, beside="poll, SET NX, acknowledge each")
