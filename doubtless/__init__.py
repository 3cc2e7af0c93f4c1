"""A function with ``@trigger`` runs once for each message. Import the public names from this package.

    from doubtless import Delivery, Message, trigger

    @trigger("orders", name="book-order", history="sqlite:///orders.sqlite3")
    def book(order: dict, delivery: Delivery) -> None: ...

===================  =====================================================================
``doubtless``        the names for services: ``trigger``, ``Message``, ``Consumer``, ``protect``
``history``          the document histories: :func:`~history.open_history` and its stores
``resolvers``        functions that decide when the history cannot know
``providers``        the messaging systems, and the interfaces to write another one
``sinks``            destinations of retrieval failure events
``guards``           duplicate detection for Celery, Dramatiq, FastStream, Taskiq and HTTP
``spark``            duplicate detection for micro-batches of Spark
``testing``          the simulator, private servers and conformance suites, for your tests
``patchbay``         components and ports of Patch Bay
``configuration``    reads ``doubtless.toml``
``pytest_plugin``    the fixture ``simulator``; pytest finds it automatically
===================  =====================================================================

Python loads each name at its first use. The code is in the packages ``history``, ``resolvers`` and
``triggers``.
"""

from typing import TYPE_CHECKING

try:
    from history.support.faces import lazy
    from history.support.namesakes import hiding
except ModuleNotFoundError:  # said here: nothing else of ours can be imported
    import history as foreign

    raise ImportError(
        f"{foreign.__file__} has the name of a package of doubtless, so that only one of them can be "
        "imported: rename it, such as to my_history.py"
    ) from None

if (problem := hiding()) is not None:
    raise ImportError(problem)

if TYPE_CHECKING:
    from doubtless import configuration as configuration
    from doubtless import guards as guards
    from doubtless import history as history
    from doubtless import patchbay as patchbay
    from doubtless import providers as providers
    from doubtless import resolvers as resolvers
    from doubtless import sinks as sinks
    from doubtless import spark as spark
    from doubtless import testing as testing
    from history import MemoryHistory as MemoryHistory
    from history import RedisHistory as RedisHistory
    from history import SqlHistory as SqlHistory
    from history import open_history as open_history
    from resolvers import Resolution as Resolution
    from resolvers import Resolved as Resolved
    from triggers import *
    from triggers.guards import protect as protect
else:
    __getattr__ = lazy(__name__)
