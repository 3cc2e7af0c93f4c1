"""Data beside the entries: one implementation of each kind, over the records of any store.

``kept`` combines the kinds in a store that has :class:`~history.store.records.Records`.
``control``: commands to consumers, their reports and the statistics.
``results``: the result of a uuid's first run. ``fingerprints``: the fingerprint of its first body.
``sealing``: the layer that encrypts parked messages, and parts of joins.
``joining``: messages that wait for each other. ``firsts``: the first message of each activation.
``journal``: one line for each verdict that needs an explanation.
``security``: the security log: who signed in, was refused, decided or gave a command.
``charts``: the counts of each minute of a day. ``progress``: how far each query of Spark has come.
``parking``: parked messages, and decisions about them.
``comments``: comments on parked messages, and to whom they are assigned.
``filters``: saved filters of parked messages.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.beside.charts import Charts as Charts
    from history.beside.comments import Comments as Comments
    from history.beside.control import Control as Control
    from history.beside.filters import Filters as Filters
    from history.beside.fingerprints import Fingerprints as Fingerprints
    from history.beside.joining import Joining as Joining
    from history.beside.journal import Journal as Journal
    from history.beside.kept import KeepsBeside as KeepsBeside
    from history.beside.kept import beside_of as beside_of
    from history.beside.kept import needed_beside as needed_beside
    from history.beside.parking import Parking as Parking
    from history.beside.progress import Progress as Progress
    from history.beside.results import Results as Results
    from history.beside.security import SecurityLog as SecurityLog
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
