"""Prometheus metrics, made from a consumer's existing counts when a client asks for them."""

from collections.abc import Iterator

from history.errors import MissingExtraError
from history.store.control import TriggerState
from triggers.metrics.watched import Watched

try:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
except ModuleNotFoundError as missing:
    raise MissingExtraError("metrics", extra="metrics", package="prometheus-client") from missing

#: The verdicts by which messages are counted.
VERDICTS = ("new", "duplicate", "in_doubt", "rejected")

#: Counts that are not verdicts: name, field of Counts, help.
COUNTERS = (
    ("unreadable", "unreadable", "Deliveries that were not messages"),
    ("failed", "failed", "Messages with a failed last run of the service"),
    ("recovered", "recovered", "Messages given back to the provider"),
    ("retried", "retried", "Runs of a service beyond the first of a delivery"),
    ("refused", "refused", "Acknowledgements that the provider did not take"),
)


class ConsumerCollector(Collector):
    """The metrics of one consumer; names and labels are those of the docs."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Read the counts; this costs nothing between two scrapes."""
        counted = [(trigger.name, trigger.statistics()) for trigger in self._watched.triggers]
        messages = CounterMetricFamily(
            "doubtless_messages", "Deliveries of messages by verdict", labels=["trigger", "verdict"]
        )
        for name, counts in counted:
            for verdict in VERDICTS:
                messages.add_metric([name, verdict], getattr(counts, verdict))
        yield messages
        for metric, field, text in COUNTERS:
            family = CounterMetricFamily(f"doubtless_{metric}", text, labels=["trigger"])
            for name, counts in counted:
                family.add_metric([name], getattr(counts, field))
            yield family
        not_parked = CounterMetricFamily(
            "doubtless_not_parked", "Messages that could be parked nowhere, each time", labels=["trigger"]
        )
        for trigger in self._watched.triggers:
            not_parked.add_metric([trigger.name], trigger.not_parked)
        yield not_parked
        seconds = SummaryMetricFamily(
            "doubtless_service_seconds", "Runs of services, and the time in them", labels=["trigger"]
        )
        for name, counts in counted:
            seconds.add_metric([name], count_value=counts.runs, sum_value=counts.seconds)
        yield seconds
        yield from self._gauges()

    def _gauges(self) -> Iterator[Metric]:
        """Report the present state of the triggers."""
        states = GaugeMetricFamily(
            "doubtless_trigger_state", "1 for the state that the trigger is in", labels=["trigger", "state"]
        )
        up = GaugeMetricFamily("doubtless_provider_up", "1 while the provider answers", labels=["trigger"])
        remembers = GaugeMetricFamily(
            "doubtless_history_up", "1 while the document history answers", labels=["trigger"]
        )
        longest = GaugeMetricFamily(
            "doubtless_oldest_delivery_seconds",
            "For how long the oldest delivery has been worked on",
            labels=["trigger"],
        )
        busy = GaugeMetricFamily(
            "doubtless_deliveries_in_progress", "Deliveries that are being worked on", labels=["trigger"]
        )
        locally = GaugeMetricFamily(
            "doubtless_parked_locally", "Messages that are parked in this machine's file", labels=["trigger"]
        )
        for trigger in self._watched.triggers:
            locally.add_metric([trigger.name], trigger.parked_locally)
            for state in TriggerState:
                states.add_metric([trigger.name, state.lower()], int(trigger.state is state))
            up.add_metric([trigger.name], int(trigger.away is None))
            remembers.add_metric([trigger.name], int(trigger.history_away is None))
            busy.add_metric([trigger.name], trigger.busy)
            longest.add_metric([trigger.name], trigger.longest)
        yield from (states, up, remembers, busy, longest, locally)


def render(collector: Collector, accept: str) -> tuple[bytes, str]:
    """Return all metrics and their content type, in the form that the client accepts."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type
