"""Reads the configuration of a service: see :mod:`triggers.configuration`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.configuration import *
else:
    __getattr__ = lazy(__name__)
