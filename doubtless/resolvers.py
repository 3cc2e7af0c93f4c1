"""Resolvers, ready-made and of your own: see :mod:`resolvers`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from resolvers import *
    from resolvers.effect_exists import spark_rows_exist as spark_rows_exist
else:
    __getattr__ = lazy(__name__)
