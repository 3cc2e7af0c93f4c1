"""What is kept beside the entries: each kind is written once, over the records of any store.

``kept`` puts the kinds together, for a store that has :class:`~history.store.records.Records`.
``results``: what the first run of a uuid answered. ``fingerprints``: which body came first with it.
``journal``: one line for each verdict that is not plain, and the security log.
``progress``: how far each query of Spark has come.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.beside.kept import KeepsBeside
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["KeepsBeside"]
