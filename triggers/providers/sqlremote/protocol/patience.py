"""When a subscriber asks for missing messages.

A new gap gets ``patience`` polls. Anything new from the publisher, even if it does not help, starts them
again; a poll without anything new takes one away. After the last one the missing messages are declared lost:
waiting messages are discarded, and everything after ``log_received`` is requested. The original ends here.
But a publisher that always has something new would be waited for without an end. So a gap may also grow too
old or keep too much. If no further poll follows, the request goes out immediately.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from history.store import watermark
from history.store.watermark import ORIGIN
from triggers.providers.sqlremote.protocol.header import Header
from triggers.providers.sqlremote.protocol.inbox import DeleteMessages, SubscriberSettings, SubscriberState


def watched(
    state: SubscriberState, now: datetime, settings: SubscriberSettings, *, new: bool
) -> SubscriberState:
    """Look for a gap after a change; ``new`` says that a message came that was not here before."""
    if not state.gap:
        since = (now if new else state.waiting_since or now) if state.cache else None
        return replace(state, patience=None, waiting_since=since, fresh=state.fresh or new)
    if state.patience is None:
        return replace(state, patience=settings.patience, waiting_since=now, fresh=True)
    if new:
        return replace(state, patience=settings.patience, fresh=True)
    return state


def tired(state: SubscriberState) -> SubscriberState:
    """Take a poll away from the patience, if it brought nothing new."""
    if state.patience is None or state.fresh:
        return state
    return replace(state, patience=max(0, state.patience - 1))


def loses_patience(
    state: SubscriberState, now: datetime, settings: SubscriberSettings, *, final: bool
) -> bool:
    """Whether to request what is missing."""
    too_old = state.waiting_since is not None and now - state.waiting_since >= settings.max_gap_age
    if state.patience is None:
        return too_old
    return final or too_old or state.patience == 0 or len(state.cache) >= settings.max_gap_messages


def losses(state: SubscriberState) -> tuple[SubscriberState, tuple[DeleteMessages, ...]]:
    """Declare missing messages lost: request them, and discard waiting ones, which will be sent again."""
    state, deletes = dropped(state, state.cache)
    state = replace(
        state,
        columns=watermark.count_loss(state.columns),
        announced=ORIGIN,
        patience=None,
        waiting_since=None,
        report_due=True,
        asking=True,
        repeat_due=None,
    )
    return state, deletes


def dropped(
    state: SubscriberState, headers: Iterable[Header]
) -> tuple[SubscriberState, tuple[DeleteMessages, ...]]:
    """Stop keeping some messages, here and in the inbox."""
    gone = set(headers)
    if not gone:
        return state, ()
    handles = tuple(cached.handle for header, cached in state.cache.items() if header in gone)
    cache = {header: cached for header, cached in state.cache.items() if header not in gone}
    return replace(state, cache=cache), (DeleteMessages(handles),)
