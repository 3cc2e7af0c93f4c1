"""Which messages are for a trigger, and for which of its services.

A selector decides which messages are for the trigger. Then the routing rules are tried in the order in which
they were added; the first rule with a filter that matches gets the message, and no other rule. The trigger's
own service comes last; its filter, if it has one, must also match. A message that no service wants is
acknowledged and leaves nothing behind: no run, no parked copy, no history entry. Source: the webMethods
trigger's routing rules and local filters.

Routing comes after the delivery count: a filter that kills its process must end like any other such message,
at ``max_delivery_count``. Routing comes before the claim: an entry would say that a message was processed
that no service received, and a rule that is added later would find a duplicate. A filter that fails gives no
answer, so this is a fatal failure of the message before its service: it is parked, with the event.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from history.errors import ConfigurationError
from history.support.rendering import shown
from history.support.user_code import is_failure
from triggers.detection.causes import Cause
from triggers.detection.table import Decision
from triggers.pipeline.run import EXPIRED, Run
from triggers.selectors import Reading
from triggers.service.binding import Binding
from triggers.service.filters import MessageFilter, Wanted, read_filter
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)

NO_SELECTOR_MATCH = "the selector does not match"
NO_RULE_MATCH = "no routing rule matches"
FILTER_FAILED = "a filter failed"

#: Row 0 without a place in the table: the message never reached the table.
_UNMATCHED = Decision(row=0, index=-1, status=None)
_BROKEN = Decision(row=0, index=-1, status=None, park=True, cause=Cause.FILTER_FAILED, rejected=True)


def drop_expired(runs: Sequence[Run], trigger: str) -> Sequence[Run]:
    """Return the runs with a message that has not expired, by this machine's clock; the others are decided.

    The sender said that nobody wants it after JMSExpiration: it is acknowledged, and leaves nothing behind.
    """
    now = datetime.now(UTC)
    for run in runs:
        expiration = run.message.expiration
        if expiration is not None and expiration <= now:
            run.decision, run.verdict = _UNMATCHED, EXPIRED
            extra = {"trigger": trigger, "uuid": run.message.uuid}
            _log.warning("not run: it has expired at %s", expiration.isoformat(), extra=extra)
    return [run for run in runs if run.verdict is None]


@dataclass(frozen=True, slots=True)
class Route:
    """A service of a trigger, and which messages it is for."""

    name: str
    wanted: Wanted
    binding: Binding


class Routing:
    """Finds the service of a message. Rules may be added until the first message comes."""

    def __init__(self, settings: Settings, own: Binding) -> None:
        self._settings = settings
        self._own = own
        self._selector = settings.selector
        self._own_filter = None if settings.filter is None else read_filter(settings.filter)
        self.routes: tuple[Route, ...] = ()
        if self._own_filter is not None:
            _check_join("filter", settings)

    @property
    def asks(self) -> bool:
        """Whether a message must be routed at all."""
        return bool(self.routes) or self._selector is not None or self._own_filter is not None

    def add(
        self,
        name: str,
        wanted: MessageFilter,
        service: Callable[..., Any],
        local_names: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a rule, tried after the earlier rules and before the trigger's own service.

        Raises:
            ConfigurationError: its name is taken, its filter cannot be read, or its service is of another
                kind than the trigger's own.
        """
        setting = f"route {shown(name)} of trigger {self._settings.name}"
        _check_join(setting, self._settings)
        _check_name(setting, name, [route.name for route in self.routes])
        binding = Binding(service, local_names)
        _check_kind(setting, binding, self._own)
        self.routes += (Route(name, read_filter(wanted), binding),)

    def adapted(
        self, settings: Settings, own: Binding, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> "Routing":
        """Return the same rules for other settings, with their services inside ``wrap``."""
        twin = Routing(settings, own)
        twin.routes = tuple(replace(route, binding=route.binding.around(wrap)) for route in self.routes)
        return twin

    def sort(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Give each message its service, and return the messages that have one; the others are decided.

        A message that was delivered too often is not routed: the table rejects it.
        """
        limit = self._settings.policy.max_delivery_count
        return [run for run in runs if run.message.delivery_count > limit or self._has_service(run)]

    def _has_service(self, run: Run) -> bool:
        reading = Reading(run.message)
        try:
            if self._selector is not None and self._selector.evaluate(reading) is not True:
                return self._turn_away(run, NO_SELECTOR_MATCH)
            for route in self.routes:
                if route.wanted(reading):
                    run.binding = route.binding
                    run.note(f"route {route.name}")
                    return True
            if self._own_filter is None or self._own_filter(reading):
                return True
        except BaseException as error:
            # A filter does not wait, so nobody can have cancelled it.
            if not is_failure(error):
                raise
            run.decision, run.verdict, run.problem = _BROKEN, FILTER_FAILED, error
            return False
        return self._turn_away(run, NO_RULE_MATCH)

    def _turn_away(self, run: Run, verdict: str) -> bool:
        run.decision, run.verdict = _UNMATCHED, verdict
        _log.debug("not run: %s", verdict, extra={"trigger": self._settings.name, "uuid": run.message.uuid})
        return False


def _check_join(setting: str, settings: Settings) -> None:
    # The joined message has all parts and no headers: a filter that matched a part would never match it.
    if settings.join == "all":
        raise ConfigurationError(
            setting,
            "a join of all has one service, for all of its messages",
            "use selector=, or another join",
        )


def _check_name(setting: str, name: Any, taken: Collection[str]) -> None:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(
            setting, "its name is empty or no text", 'write .route("cancel", filter=...)'
        )
    if name in taken:
        raise ConfigurationError(setting, "another one has this name", "give each its own name")


def _check_kind(setting: str, binding: Binding, own: Binding) -> None:
    if own.batch:
        raise ConfigurationError(setting, "a batch is for one service", "leave out batch= or the route")
    if binding.is_async is not own.is_async:
        verb, other = ("is", "is not") if binding.is_async else ("is not", "is")
        raise ConfigurationError(
            setting,
            f"its service {verb} a coroutine function, and the trigger's own {other}",
            "make all services of a trigger of one kind",
        )
    if binding.resources and set(binding.resources.values()) != set(own.resources.values()):
        asked = " and ".join(sorted(binding.resources))
        raise ConfigurationError(
            setting,
            f"its service takes a {asked}, and the trigger's own takes none",
            "let the trigger's own service also take one: it makes the trigger atomic",
        )
