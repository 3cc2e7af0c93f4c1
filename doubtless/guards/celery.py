"""The guard for Celery: see :mod:`triggers.guards.celery`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.celery import *
else:
    __getattr__ = lazy(__name__)
