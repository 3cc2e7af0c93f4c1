"""``@trigger``, which makes a :class:`~triggers.Trigger` of a function."""

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from history.errors import ConfigurationError
from triggers.declaration.trigger import Trigger
from triggers.service.checking import check_able, check_callable, check_history_url, pointing
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

        @trigger("orders", name="book-order", history="sqlite:///orders.sqlite3")
        def book(order: dict, delivery: Delivery) -> None: ...

    Args:
        destination: the queue, topic or stream, or a list of several; ``join`` says how their messages belong
            together.
        name: the namespace in the history, equal on all machines that share it. By default "module.function".
            Scripts and notebooks must give a name, because all of them are called ``__main__``.
        history: a URL or a store. None: no document history. By default: the history of the consumer.
        resolver: decides when history and delivery count cannot: a callable, "package.module:function" or the
            name of an entry point.
        uuid: the place of a message's identity, if you cannot trust the identity that the sender sets:
            "body.order.event_id", "properties.event_id", or a function of the message that returns text, a
            whole number, bytes or a UUID. It replaces the sender's identity. Name the identity of an event,
            never of an entity: with the number of an order, the second event of the order is a duplicate. A
            message without an identity there is rejected and parked.
        on_duplicate: a function of the message and its outcome, called for each duplicate before that is
            acknowledged. It may be a coroutine function if the service is one. If it fails, this is logged
            and changes nothing. Or the name of a destination: a consumer sends each whole duplicate there,
            through its own provider. While that is away, the consumer recovers the duplicate. After a crash,
            the function or the destination may get the same copy again.
        max_delivery_count: more deliveries than this are rejected, which ends a message that kills its
            process.
        detect_duplicates: False runs the service on every delivery.
        history_time_to_live: how long the history remembers an entry, from the start of the service. Make it
            longer than any publisher or broker may take to send a message again.
        lease: how long a started run counts as alive, whatever happens to its process. doubtless renews it
            while the service runs, and a copy that comes meanwhile waits. By default 30 seconds, or a third
            of history_time_to_live if that is shorter. With None, as in webMethods, such a copy is In Doubt
            immediately. If a resolver then finds no effect yet, the service runs twice at the same time.
        in_doubt: "park" keeps In Doubt messages for a decision. "execute" runs them, for services that may
            run twice. "acknowledge" drops them, with an error in the log.
        retry: runs the service again in this process after a transient failure; by default it does not.
        redelivery: how long the provider waits before it delivers a message again after a transient failure
            in a transacted trigger. By default the pause doubles from one second to one minute. None: no
            pause.
        on_retry_failure: when the retries are used up, "throw" gives the message up. "suspend" recovers it
            and suspends the trigger until its monitor lets it continue, or without one, until a person does.
        on_history_error: while the history is away, "suspend" recovers messages and suspends the trigger.
            "resolve" lets the resolver decide without the history.
        on_rollback: after a transient failure of a transacted trigger, "recover" delivers the message again.
            "suspend_and_recover" suspends the trigger as well, as on_retry_failure="suspend" does.
        suspend_on_error: True suspends the trigger in all its consumers when a message is given up, until a
            person resumes it. Use it if the order of messages matters.
        forgotten: the status of a redelivered message that has no entry and was sent longer ago than the
            history remembers: "new", as in webMethods, or "in_doubt", because its entry may have expired.
        resolved_duplicate: what happens to the entry of a message that the resolver calls a duplicate.
            "complete" completes it, so that further copies are duplicates as well. "leave" leaves it STARTED,
            as in webMethods, so that each copy asks the resolver again.
        redelivery_horizon: how long the broker or the publisher may send a message again. A consumer warns at
            its start if the history forgets sooner.
        transient: the exception classes that deserve another try, in addition to TransientError and
            UnavailableError. Or a function of ``(error)`` that returns True for such an error.
        monitor: called while the trigger is suspended; it returns whether the trigger may continue.
        monitor_interval: how often doubtless calls the monitor.
        transacted: True rolls back on failure. After a transient failure, the message is NEW at its next
            delivery. After a fatal failure, it is rejected.
        concurrency: how many messages of one consumer run at the same time.
        prefetch: how many deliveries each of these fetches in one call. Fetched deliveries count as
            delivered. Above 1, quick messages of an atomic trigger share a transaction.
        batch: the service takes up to this many messages in one call, as lists. doubtless detects each
            message separately, and all of them end together.
        acknowledge_mode: "client" acknowledges processed messages. "auto" acknowledges on receipt, so a crash
            loses the message. "dups_ok" acknowledges now and then, so a crash repeats some messages.
            doubtless detects duplicates only in "client" mode.
        max_body_size: a larger body, in bytes, is a fatal failure. The message is parked whole.
        parking: where messages are parked: the URL of a history, or a parking lot. By default: beside the
            history.
        local_parking_file: the file that takes parked messages while no server can. By default it is in the
            user's state directory.
        raise_event_on_exception: whether a fatal failure raises the retrieval failure event.
        raise_event_on_retry_failure: whether used-up retries, an exceeded max_delivery_count, and a failed
            history or resolver raise it. Unreadable and unidentified deliveries always raise it.
        join: "any" runs every message. "all" waits for one message of each destination with the same property
            ``activation``, and runs once with all of them. "one" runs the first message of an activation.
        join_timeout: how long "all" waits for the missing messages before it parks the waiting ones, and how
            long "one" keeps later messages out. None: forever.
        ordered: True runs the messages of one JMSXGroupID one after the other, in the order of the
            destination. With ``concurrency=1``, this is true for all messages. One process receives at a
            time, and the others stand by. Needs a history.
        selector: a JMS message selector. The trigger takes only messages that match. The other messages are
            acknowledged and leave no trace.
        filter: which messages this function takes: a condition, which may look into the body, or a function
            of the message that returns True or False. It is checked after the rules of :meth:`Trigger.route`.
            A message that no function takes is acknowledged and leaves no trace. If a filter fails, this is a
            fatal failure of the message.
        shadow: True judges and records every message, and stops none. A message that would have been stopped
            runs as well, and the log and ``Outcome.would_have`` say so. This shows on a running system what
            detection would do, without any guarantee.
        keep_result: True, or a :class:`Keep`: the history keeps the first run's result as JSON beside its
            entry. A duplicate has it as ``Outcome.result``, with ``Outcome.result_kept`` True.
        fingerprint: "body", or a function of the message that returns the part to compare (bytes, text or
            JSON; None: nothing to compare). A message that has the uuid of another message and another
            fingerprint is rejected and parked. It does not run, and does not count as a duplicate.
        journal: True, or the URL of another history: where lines are written for ``doubtless why`` and the
            dashboard. A message gets a line if it is a duplicate, In Doubt, rejected or given up. It also
            gets one if a resolver gave a reason for it, if it was taken over from a run that died, or if its
            end came too late. The journal keeps about 10,000 lines of the trigger, the newest ones. If a line
            cannot be written, nothing else changes.
        tracing: True makes OpenTelemetry spans for each message and its answer (extra ``otel``), with links
            to the spans in which the messages were sent. OpenTelemetry's own settings say where spans go.
        redact: takes values, such as card numbers, out of the texts of errors and resolvers before doubtless
            logs, parks or sends them: ``CARD_NUMBERS``, ``IBANS``, ``TOKENS``, a function of a text that
            returns a text, or a list of these. If one of them fails, nothing of the text is left. Bodies,
            uuids and ``Outcome.error`` stay as they are.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    frame = inspect.currentframe()
    # Annotations may name the caller's local names, such as a model defined in a test function.
    caller = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
    with pointing():
        destinations = listed(destination)
        check_names("@trigger", options, TriggerOptions.__annotations__)
        history, resolver = options.get("history", CONSUMERS_DEFAULT), options.get("resolver")
        _check_sources(history, resolver)

    def decorate(service: Callable[P, R]) -> Trigger[P, R]:
        with pointing():
            check_callable("@trigger", service, "decorate a function or a static method")
            if isinstance(service, Trigger):
                raise ConfigurationError(
                    "@trigger",
                    f"{service.name} is a trigger already, and would no longer receive",
                    'name all destinations in one list: @trigger(["orders", "returns"]); or give both '
                    "triggers a name in the module, and decorate its .service",
                )
            settings = Settings.of(destinations, {**TRIGGER_DEFAULTS, **options}, service)
            made = Trigger(
                service, settings, history=history, resolver=resolver, local_names=caller, said=options
            )
        _warn_of_no_lease(made)
        return made

    return decorate


def _check_sources(history: Any, resolver: Any) -> None:
    if isinstance(history, str):
        check_history_url("history", history, "give a URL, such as 'redis://...', or None")
    elif history is not None and history is not CONSUMERS_DEFAULT:
        check_able("history", history, ("claim", "settle"), "give a URL or a store, or None")
    if resolver is not None and not isinstance(resolver, str):
        check_callable("resolver", resolver, "give a function, or 'package.module:function'")


def _warn_of_no_lease(trigger: Trigger[..., Any]) -> None:
    """Log what happens if a resolver is called while the first run goes on."""
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
