"""Micro-batches of Spark: see :mod:`triggers.spark`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.spark import *
else:
    __getattr__ = lazy(__name__)
