"""Prometheus metrics, made from a consumer's existing counts when a client asks for them."""

from collections.abc import Callable, Iterator, Mapping

from history.errors import MissingExtraError
from history.store.control import Counts, TriggerState
from triggers.metrics.watched import Watched, WatchedTrigger

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


#: The present state of a trigger: name, help, and its value.
GAUGES: tuple[tuple[str, str, Callable[[WatchedTrigger], float]], ...] = (
    ("provider_up", "1 while the provider answers", lambda trigger: trigger.away is None),
    ("history_up", "1 while the document history answers", lambda trigger: trigger.history_away is None),
    ("deliveries_in_progress", "Deliveries that are being worked on", lambda trigger: trigger.busy),
    (
        "oldest_delivery_seconds",
        "For how long the oldest delivery has been worked on",
        lambda trigger: trigger.longest,
    ),
    (
        "parked_locally",
        "Messages that are parked in this machine's file",
        lambda trigger: trigger.parked_locally,
    ),
)


class ConsumerCollector(Collector):
    """The metrics of one consumer; names and labels are those of the docs."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Read the counts; this costs nothing between two scrapes."""
        triggers = self._watched.triggers
        counted = {trigger.name: trigger.statistics() for trigger in triggers}
        yield verdicts("doubtless_messages", "Deliveries of messages by verdict", counted)
        for metric, field, text in COUNTERS:
            yield counter(metric, text, {name: getattr(counts, field) for name, counts in counted.items()})
        text = "Messages that could be parked nowhere, each time"
        yield counter("not_parked", text, {trigger.name: trigger.not_parked for trigger in triggers})
        seconds = SummaryMetricFamily(
            "doubtless_service_seconds", "Runs of services, and the time in them", labels=["trigger"]
        )
        for name, counts in counted.items():
            seconds.add_metric([name], count_value=counts.runs, sum_value=counts.seconds)
        yield seconds
        yield self._states()
        for metric, text, value_of in GAUGES:
            yield gauge(metric, text, {trigger.name: value_of(trigger) for trigger in triggers})

    def _states(self) -> Metric:
        states = GaugeMetricFamily(
            "doubtless_trigger_state", "1 for the state that the trigger is in", labels=["trigger", "state"]
        )
        for trigger in self._watched.triggers:
            for state in TriggerState:
                states.add_metric([trigger.name, state.lower()], int(trigger.state is state))
        return states


def counter(name: str, text: str, values: Mapping[str, float]) -> Metric:
    """Return counts of triggers."""
    return _filled(CounterMetricFamily(f"doubtless_{name}", text, labels=["trigger"]), values)


def gauge(name: str, text: str, values: Mapping[str, float]) -> Metric:
    """Return present values of triggers."""
    return _filled(GaugeMetricFamily(f"doubtless_{name}", text, labels=["trigger"]), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]) -> Metric:
    for trigger, value in values.items():
        family.add_metric([trigger], value)
    return family


def verdicts(name: str, text: str, counted: Mapping[str, Counts]) -> Metric:
    """Return how many messages of triggers had each verdict."""
    family = CounterMetricFamily(name, text, labels=["trigger", "verdict"])
    for trigger, counts in counted.items():
        for verdict in VERDICTS:
            family.add_metric([trigger, verdict], getattr(counts, verdict))
    return family


def render(collector: Collector, accept: str) -> tuple[bytes, str]:
    """Return all metrics and their content type, in the form that the client accepts."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type
