"""The backlog of a consumer group in its topic; a client that does not join the group asks."""

from typing import Any

from triggers.providers.kafka.driver import driver, made
from triggers.providers.kafka.errors import translated
from triggers.providers.kafka.membership import PATIENCE
from triggers.providers.kafka.offsets import Partition
from triggers.providers.kafka.settings import Start


def lag_of(settings: dict[str, Any], topic: str, start: Start) -> int | None:
    """Return how many messages of a topic a group has not settled; None if the topic does not exist.

    ``settings`` are those of a member of the group, which begins by ``start``. The number includes messages
    that a compacted topic has dropped, aborted messages, and the marks of transactions.

    Raises:
        ProviderUnavailableError: no broker answers.
        ConfigurationError: the brokers refuse it.
    """
    client = made(driver.Consumer, settings | {"error_cb": _ignored})
    try:
        metadata = client.list_topics(timeout=PATIENCE).topics.get(topic)  # asking for one may make it
        if metadata is None or metadata.error is not None or not metadata.partitions:
            return None
        wanted = [driver.TopicPartition(topic, number) for number in metadata.partitions]
        committed = client.committed(wanted, timeout=PATIENCE)
        return sum(_lag(client, partition, starts_late=start == "latest") for partition in committed)
    except driver.KafkaException as error:
        doing, group = "counting what waits", settings["group.id"]
        raise translated(error, topic=topic, doing=doing, group=group) from error
    finally:
        client.close()


def _lag(client: Any, committed: Any, *, starts_late: bool) -> int:
    low, high = client.get_watermark_offsets(committed, timeout=PATIENCE)
    if committed.offset < 0:  # nothing was ever committed
        return 0 if starts_late else int(high - low)
    settled = Partition.resumed(
        committed.topic, committed.partition, committed.offset, committed.metadata
    ).settled_beyond
    return max(0, int(high - max(low, committed.offset)) - settled)


def _ignored(_: Any) -> None:
    """Ignore connection errors: librdkafka tries again until its time is over."""
