"""``/metrics``: facts that no single consumer knows: the sum of consumers, parked and waiting messages."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from history.bridge import drive
from history.errors import DoubtlessError
from history.store.control import Overview, TriggerState
from triggers.dashboard.access.gate import AccessGate
from triggers.dashboard.operations import Operations
from triggers.dashboard.pulse import PulseReading
from triggers.dashboard.visit import ask_for_token, outage
from triggers.metrics.exposition import gauge, verdicts
from triggers.operations.status import AWAY, running_rows


class Metrics:
    """Answers clients with a token or a session; nothing is counted between two scrapes."""

    def __init__(self, gate: AccessGate, operations: Operations) -> None:
        self._gate, self._operations = gate, operations

    async def serve(self, request: Request) -> Response:
        """Serve one scrape."""
        seconds = self._gate.wait(request)
        if seconds > 0 or not self._gate.admits(request):
            return ask_for_token(request, self._operations.recorder, seconds)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(OperationsCollector(self._operations))
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        try:
            body = await run_in_threadpool(encoder, registry)
        except DoubtlessError as error:
            return PlainTextResponse(f"{outage(self._operations.pulse, error)}\n", 503)
        return Response(body, media_type=content_type)


class OperationsCollector(Collector):
    """The metrics of a history and its providers; the docs list names and labels."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def collect(self) -> Iterator[Metric]:
        """Read the histories, and report the last answers of the providers.

        Raises:
            DoubtlessError: the dashboard's history does not answer.
        """
        reading = self._reading()
        yield verdicts(
            "doubtless_history_messages",
            "Deliveries of messages by verdict, as all consumers of the history have counted them",
            reading.overview.statistics,
        )
        yield gauge(
            "parked_messages",
            "Messages that wait for a decision",
            {
                name: drive(self._operations.lot_of(name).parking.count(trigger=name))
                for name in reading.triggers
                if self._operations.sees_parked(name)
            },
        )
        yield from _kept(self._operations, reading)
        beats = [beat.report.trigger for beat in reading.overview.beats]
        yield gauge(
            "consumers",
            "Consumers that live",
            {name: beats.count(name) for name in reading.triggers},
        )
        yield _states(reading.overview)
        yield self._backlog()

    def _reading(self) -> PulseReading:
        """Return what all histories that answer say; what another said last may be over."""
        pulse = self._operations.pulse
        pulse.read()
        reading, silent = pulse.known(), pulse.silent
        beats = [beat for beat in reading.overview.beats if beat.report.trigger not in silent]
        names = [name for name in reading.triggers if name not in silent]
        return replace(reading, overview=replace(reading.overview, beats=beats), triggers=names)

    def _backlog(self) -> Metric:
        family = GaugeMetricFamily(
            "doubtless_backlog_messages",
            "Messages at the provider; at least so many where it does not count them",
            labels=["provider", "destination", "subscription", "state"],
        )
        for asked in self._operations.places.latest():
            for backlog in asked.backlogs:
                for state in ("waiting", "held", "later"):
                    if (count := getattr(backlog, state)) is not None:
                        label_values = [asked.address, backlog.destination, backlog.subscription or "", state]
                        family.add_metric(label_values, count)
        return family


def _kept(operations: Operations, reading: PulseReading) -> Iterator[Metric]:
    """Report the result of the last survey: it is made beside the scrapes, and the first scrape has none."""
    survey = operations.surveyor.scraped()
    if survey.sizes is None:
        return
    seen = [name for name in reading.triggers if operations.sees_parked(name)]
    oldest = dict.fromkeys(seen, reading.overview.now)
    for group in survey.groups:
        oldest[group.trigger] = min(group.oldest, oldest.get(group.trigger, group.oldest))
    yield gauge(
        "parked_oldest_seconds",
        "For how long the oldest parked message has waited; 0 when none does",
        {name: max(0.0, (reading.overview.now - since).total_seconds()) for name, since in oldest.items()},
    )
    entries = {name: size.started + size.completed for name, size in survey.sizes.items()}
    yield gauge("history_entries", "Entries that the history remembers", entries)
    sizes = {name: operations.bytes_of({name: count}) for name, count in entries.items()}
    known_sizes = {name: size for name, size in sizes.items() if size is not None}
    if known_sizes:
        yield gauge("history_bytes", "About what these entries take", known_sizes)


def _states(overview: Overview) -> Metric:
    family = GaugeMetricFamily(
        "doubtless_trigger_consumers",
        "Consumers that live, by the state of the trigger",
        labels=["trigger", "state"],
    )
    said = [row for name in overview.triggers() for row in running_rows(name, overview)]
    counted = Counter((row["trigger"], row["state"]) for row in said if row["consumer"] is not None)
    for name in overview.triggers():
        for state in (*TriggerState, AWAY):
            family.add_metric([name, state.lower().replace(" ", "_")], counted[name, state])
    return family
