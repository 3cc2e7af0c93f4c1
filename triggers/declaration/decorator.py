"""``@trigger``, which makes a :class:`~triggers.Trigger` of a function."""

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from triggers.declaration.trigger import Trigger
from triggers.service.checking import check_able, check_callable, check_text, pointing
from triggers.service.options import (
    CONSUMERS_DEFAULT,
    ConsumersDefault,
    HistorySource,
    TriggerOptions,
    check_names,
    showing_options,
)
from triggers.service.settings import TRIGGER_DEFAULTS, Settings
from triggers.service.terms import listed

__all__ = ["ConsumersDefault", "HistorySource", "Trigger", "trigger"]

_log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


@showing_options(TriggerOptions, {"history": CONSUMERS_DEFAULT, "resolver": None, **TRIGGER_DEFAULTS})
def trigger(
    destination: str | Sequence[str], **options: Unpack[TriggerOptions]
) -> Callable[[Callable[P, R]], Trigger[P, R]]:
    """Make a function run once for each message of ``destination``.

    Args:
        destination: the queue, topic or stream; a list of several, whose messages ``join`` brings together.
        name: the namespace in the history, equal on all machines that share it; "module.function" by default,
            but for scripts and notebooks, which are all called ``__main__``.
        history: a URL or store; None for no document history; left out, the consumer's default.
        resolver: asked when history and delivery count cannot tell: a callable, "package.module:function" or
            the name of an entry point.
        uuid: where a message's identity stands, when the sender sets none that can be trusted:
            "body.order.event_id", "properties.event_id", or a function of the message that returns text, a
            whole number, bytes or a UUID. It takes the place of the sender's. An event's identity, never an
            entity's: with the number of an order, its second event is a duplicate. A message that has none is
            rejected and parked.
        on_duplicate: called with the message and its outcome for each duplicate, before that is acknowledged;
            a coroutine function where the service is one. Its failure is logged, and changes nothing. Or the
            name of a destination: a consumer sends the duplicate there, whole, through its own provider, and
            gives it back while that is away. After a crash the same copy may be told of, or sent, again.
        max_delivery_count: deliveries above it are rejected; a message that kills its process ends here.
        detect_duplicates: False runs the service on every delivery.
        history_time_to_live: how long an entry is remembered, from the start of the service; make it longer
            than any publisher or broker may take to send a message again.
        lease: for how long a started run is presumed alive, whatever becomes of its process; it is renewed
            while the service runs. A copy that comes meanwhile waits. 30 seconds by default, a third of
            history_time_to_live where that is shorter. None is the reference system's behaviour: such a copy
            is In Doubt at once, and a resolver that finds no effect yet has the service run beside itself.
        in_doubt: "park" keeps In Doubt messages for a decision, "execute" runs them (for services that may
            run twice), "acknowledge" drops them, with an error in the log.
        retry: in-process re-runs after transient failures; none by default.
        redelivery: how long the provider waits before it delivers a message again that a transacted trigger
            failed for transiently. By default the pause doubles from a second to a minute; None: no pause.
        on_retry_failure: when they are used up, "throw" gives the message up, "suspend" gives it back and
            suspends the trigger until its monitor says that it may go on.
        on_history_error: while the history is away, "suspend" gives messages back and suspends the trigger,
            "resolve" lets the resolver decide alone.
        on_rollback: after a transient failure of a transacted trigger, "recover" delivers the message again,
            "suspend_and_recover" suspends the trigger as well, until its monitor says that it may go on.
        suspend_on_error: suspend the trigger after a fatal failure, until somebody resumes it or its monitor
            says that it may go on; for messages whose order matters.
        forgotten: what a redelivered message without an entry is when it was sent longer ago than the history
            remembers: "new", as in the reference system, or "in_doubt", for the entry may have expired.
        resolved_duplicate: what becomes of the entry of a message that the resolver calls a duplicate:
            "complete" completes it, so that further copies are duplicates, too; "leave" leaves it STARTED, as
            in the reference system, so that each copy asks the resolver again.
        redelivery_horizon: for how long the broker or the publisher may send a message again; a consumer
            warns at its start when the history forgets sooner.
        transient: exception classes worth another try, besides TransientError and UnavailableError, or a
            function of ``(error)`` that says so.
        monitor: asked while suspended whether the trigger may go on.
        monitor_interval: how often it is asked.
        transacted: roll back on failure; a transient one is NEW at the next delivery, a fatal one rejected.
        concurrency: how many messages of one consumer run at once.
        prefetch: how many deliveries each of them fetches at once; they count as delivered. Above 1, quick
            messages of an atomic trigger share a transaction.
        batch: the service takes up to so many messages at once, as lists; each is detected by itself, and
            they share one end.
        acknowledge_mode: "client" acknowledges what was processed; "auto" acknowledges on receipt, so that a
            crash loses the message, and "dups_ok" now and then, so that a crash repeats some. Duplicates are
            detected in "client" mode only.
        max_body_size: a larger body, in bytes, is a fatal failure; it is parked whole.
        parking: where messages are kept aside: the URL of a history, or a lot; beside the history by default.
        local_parking_file: the file that takes them while no server can; in the user's state directory by
            default.
        raise_event_on_exception: whether a fatal failure raises the retrieval failure event.
        raise_event_on_retry_failure: whether retries that are used up, a passed max_delivery_count, and a
            history or resolver that failed do. Unreadable and unidentified deliveries always raise it.
        join: "any" runs every message; "all" waits for one of each destination with the same property
            ``activation`` and runs once with all of them; "one" runs the first of an activation.
        join_timeout: how long "all" waits for the others, which are parked then, and how long "one" keeps
            them out; None for ever.
        ordered: messages of one JMSXGroupID run one after the other, in the order of the destination; with
            ``concurrency=1`` all do. One process at a time receives, the others stand by. Needs a history.
        selector: a JMS message selector: only what it matches is for this trigger. The rest is acknowledged
            and leaves no trace.
        filter: what this function is for, as a condition that may look into the body or as a function of the
            message that answers True or False; asked after the rules of :meth:`Trigger.route`. What nobody
            wants is acknowledged and leaves no trace; a filter that fails is a fatal failure of the message.
        shadow: True judges and records every message, and stops none: what would have been stopped runs as
            well, and log and ``Outcome.would_have`` say so. There is no guarantee then; it shows on a running
            system what detection would do.
        keep_result: True, or a :class:`Keep`: what the first run returned is kept as JSON beside its entry,
            and a duplicate's ``Outcome.result`` is it (``Outcome.result_kept``).
        fingerprint: "body", or a function of the message that returns what counts of it (bytes, text or JSON;
            None: nothing to compare): a message that has the uuid of another one and another fingerprint is
            rejected and parked, neither run nor taken for a duplicate.
        journal: True, or the URL of another history: each message that is a duplicate, In Doubt, rejected or
            given up, that a resolver gave a reason for, that was taken over from a run that died, or whose
            end came too late, leaves a line there, for ``doubtless why`` and the dashboard. About the
            youngest 10,000 of the trigger are kept. A line that cannot be written stops nothing.
        tracing: True makes OpenTelemetry spans of what is handled and answered (extra ``otel``), with links
            to the spans in which the messages were sent. Where spans go is set up with OpenTelemetry.
        redact: what takes values, such as card numbers, out of the texts of errors and resolvers before they
            are logged, parked or sent: ``CARD_NUMBERS``, ``IBANS``, ``TOKENS``, a function of a text that
            returns a text, or a list of these. Where one of them fails, nothing of the text is left. Bodies,
            uuids and ``Outcome.error`` stay as they are.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    frame = inspect.currentframe()
    # Annotations may name what is local to the caller, such as a model defined in a test function.
    caller = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
    with pointing():
        destinations = listed(destination)
        check_names("@trigger", options, TriggerOptions.__annotations__)
        history, resolver = options.get("history", CONSUMERS_DEFAULT), options.get("resolver")
        _check_sources(history, resolver)

    def decorate(service: Callable[P, R]) -> Trigger[P, R]:
        with pointing():
            check_callable("@trigger", service, "decorate a function")
            settings = Settings.of(destinations, {**TRIGGER_DEFAULTS, **options}, service)
            made = Trigger(service, settings, history=history, resolver=resolver, local_names=caller)
        _warn_of_no_lease(made)
        return made

    return decorate


def _check_sources(history: Any, resolver: Any) -> None:
    if isinstance(history, str):
        check_text("history", history, "give a URL, such as 'redis://...', or None")
    elif history is not None and history is not CONSUMERS_DEFAULT:
        check_able("history", history, ("claim", "settle"), "give a URL or a store, or None")
    if resolver is not None and not isinstance(resolver, str):
        check_callable("resolver", resolver, "give a function, or 'package.module:function'")


def _warn_of_no_lease(trigger: Trigger[..., Any]) -> None:
    """Say what a resolver does that is asked about a run which goes on."""
    settings = trigger.settings
    if settings.lease is not None or trigger.resolver is None:
        return
    if trigger.has_history and settings.policy.detect_duplicates and not trigger.binding.resources:
        _log.warning(
            "trigger %s: lease=None, so its resolver is asked about a copy while the first run goes on; "
            "where it finds no effect yet and answers NEW, the service runs twice. Leave lease out, unless "
            "the effect is there before anything can send the message again",
            settings.name,
            extra={"trigger": settings.name},
        )
