"""A consumer on Kafka, one message at a time, beside the loops that one would write by hand.

What is timed is the steady state: from the first message that is worked on to the last. The loops poll, note
the uuid with SET NX, and commit or accept each message, without waiting for the broker. They do not note that
a message is completed, so what a crash leaves behind is lost to them. The broker is the mock cluster of
Kafka's client, so the numbers are those of the clients.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import confluent_kafka

from benchmarks.bench import Bench
from benchmarks.measuring import WARM_UP, Times
from benchmarks.result import Result
from benchmarks.rows import floors
from benchmarks.rows.steady import Steady
from history.bridge import drive
from history.message import Message
from tests.fixtures.servers.kafka_server import KafkaServer
from triggers import trigger
from triggers.consumer import Consumer
from triggers.providers.kafka import Kafka

#: How many messages a round has, for each message of the other rows.
SHARE = 5

#: How many the consumer fetches ahead.
PREFETCH = 10

#: More deliveries than there will be: this broker counts one whenever a connection ends.
LIMIT = 10_000

#: As Any: confluent-kafka is typed for a part only.
_driver = cast("Any", confluent_kafka)


@dataclass(slots=True)
class Work:
    """One competitor's topic, and when its messages were worked on."""

    bench: Bench
    kafka: KafkaServer
    steady: Steady = field(default_factory=Steady)

    @property
    def topic(self) -> str:
        """The topic of this competitor."""
        return self.steady.destination

    def fill(self, messages: int) -> None:
        """Make the topic, of one partition, and send so many messages."""
        self.kafka.create(self.topic, 1)
        provider = Kafka.from_url(f"kafka://{self.kafka.address}")
        drive(provider.send(self.topic, self.bench.fresh(messages)))
        drive(provider.close())


def _consume(work: Work, messages: int, *, share: bool) -> None:
    """Run a consumer until it has worked on so many messages."""
    options = f"?share=true&fetch=100&delivery_limit={LIMIT}" if share else ""

    @trigger(work.topic, name=work.topic, history=work.bench.server.url, prefetch=PREFETCH)
    def idle(message: Message) -> None:
        del message
        work.steady.note()
        if len(work.steady.times) == messages:
            consumer.stop()

    consumer = Consumer([idle], f"kafka://{work.kafka.address}{options}")
    consumer.run()


def _member(work: Work, *, share: bool) -> Any:
    shared = {"bootstrap.servers": work.kafka.address, "group.id": f"by-hand-{work.topic}", "log_level": 0}
    if share:
        own = {"share.acknowledgement.mode": "explicit", "max.poll.records": 100}
        member = _driver.ShareConsumer(shared | own)
    else:
        own = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        member = _driver.Consumer(shared | own)
    member.subscribe([work.topic])
    return member


def _loop(work: Work, messages: int, *, share: bool) -> None:
    """Poll, note and answer by hand until so many messages are worked on."""
    client: Any = work.bench.bare()
    member = _member(work, share=share)
    while len(work.steady.times) < messages:
        found: Any = member.poll(1.0)
        for record in found if share else [found] if found is not None else []:
            uuid = dict(record.headers())["uuid"].decode()
            floors.claim(client, Message(body=record.value(), uuid=uuid, delivery_count=1))
            work.steady.note()
            if share:
                member.acknowledge(record)
            else:
                member.commit(record)
    member.close()


def measure(bench: Bench) -> Iterable[Result]:
    """Let consumers and loops take turns."""
    messages = bench.effort.messages * SHARE
    runs: Mapping[str, Callable[..., None]] = {"consumer": _consume, "loop": _loop}
    rounds: dict[str, list[float]] = {f"{name} {share}": [] for name in runs for share in (False, True)}
    rows = bench.fewer(10)
    with KafkaServer(brokers=2) as kafka:
        kafka.deliver_at_most(LIMIT)
        for number in bench.progress.track(range(rows + WARM_UP), description="consumer on Kafka"):
            for share in (False, True):
                for name, run in runs.items():
                    work = Work(bench, kafka)
                    work.fill(messages)
                    run(work, messages, share=share)
                    if number >= WARM_UP:
                        rounds[f"{name} {share}"].append(work.steady.seconds)
    times = Times(rounds)
    for share, kind, text in (
        (False, "consumer group", "poll, SET NX, commit of each"),
        (True, "share group", "poll, SET NX, acknowledge each"),
    ):
        yield Result(
            what=f"consumer on Kafka, {kind}, batch=1, prefetch={PREFETCH}",
            beside=text,
            unit="messages/s",
            measured=1 / times.of(f"consumer {share}"),
            floor=1 / times.of(f"loop {share}"),
            ratio=1 / times.ratio(f"consumer {share}", f"loop {share}"),
        )
