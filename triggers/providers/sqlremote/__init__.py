"""SQL Remote: guaranteed, ordered delivery over a carrier that may lose, double, reorder and garble.

One direction of a link, from the publisher's log to the subscriber's database:

    parts.cut -> packet.encode -> carrier -> packet.decode -> subscriber.receive -> advance -> applied
        ^                                                                              |
        publisher.packets <- publisher.hear <- (log_received, rereceive_count) <- subscriber.polled

``protocol/publisher.py`` and ``protocol/subscriber.py`` are pure: they get the events and the time, and
return their next state and the actions. :mod:`history.store.watermark` has the state that must be stored; the
rest may be lost at any moment.

``links.py`` is the provider, ``receiver.py`` one receiver, ``settings.py`` the settings file,
``inspection.py`` makes the output of ``doubtless sqlremote status``. ``protocol/`` decides, ``agent/`` acts,
``publication/`` is the log, ``capture/`` makes SQL triggers that fill it, ``carriers/`` take messages from
one end to the other, and ``extraction/`` rebuilds the other end. ``comparison.py`` says which rows of both
ends differ.

Guarantee: atomic, if a runner stores ``log_received`` in the transaction of the work: each committed
transaction is applied exactly once, in order, or the link stops with an alarm that says what to do.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.sqlremote.agent.hooks import Hooks as Hooks
    from triggers.providers.sqlremote.capture.changes import Change as Change
    from triggers.providers.sqlremote.capture.changes import apply_changes as apply_changes
    from triggers.providers.sqlremote.links import Links as Links
    from triggers.providers.sqlremote.publication.publication import Publication as Publication
    from triggers.providers.sqlremote.settings import LinkSettings as LinkSettings
    from triggers.providers.sqlremote.settings import RemoteSettings as RemoteSettings
else:
    __getattr__ = lazy(__name__)
