"""SQL Remote: guaranteed, ordered delivery over a link whose carrier may lose, double, reorder and garble.

One direction of a link, from the publisher's log to the subscriber's database:

    parts.cut -> packet.encode -> carrier -> packet.decode -> subscriber.receive -> advance -> applied
        ^                                                                              |
        publisher.packets <- publisher.hear <- (log_received, rereceive_count) <- subscriber.polled

``protocol/publisher.py`` and ``protocol/subscriber.py`` are pure: they are given what happened and the
time, and answer with their next state and what is to be done. What has to be stored is in
:mod:`history.store.watermark`; the rest of their states may be lost at any moment.

``links.py`` is the provider, ``receiver.py`` one receiver, ``settings.py`` the settings file,
``inspection.py`` what ``doubtless sqlremote status`` shows; ``protocol/`` decides, ``agent/`` does it,
``publication/`` is the log, ``carriers/`` take messages from one end to the other, ``extraction/`` makes the
other end anew. ``asyncio.py`` is for event loops.

Guarantee: atomic, where a runner stores ``log_received`` in the transaction of the work: each committed
transaction is applied exactly once, in order, or the link stops with an alarm that says what to do.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.sqlremote.agent.hooks import Hooks
    from triggers.providers.sqlremote.links import Links
    from triggers.providers.sqlremote.publication.publication import Publication
    from triggers.providers.sqlremote.settings import LinkSettings, RemoteSettings
else:
    __getattr__ = lazy(__name__)

__all__ = ["Hooks", "LinkSettings", "Links", "Publication", "RemoteSettings"]
