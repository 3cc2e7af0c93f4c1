"""The settings of a service from outside its code: the environment and ``doubtless.toml``.

One rule for all: the command line wins over the environment, which wins over the file, which wins over the
code (``@trigger``, and its defaults). The library itself reads neither; the command line does, and so does a
caller of :func:`read_configuration`. ``reading.py`` reads both, by the keys of ``model.py`` with times as in
``durations.py`` and within ``limits.py``. ``nearest.py`` suggests a known name for an unknown one.
``layers.py`` holds each value with its source; ``overriding.py`` gives the values to triggers, ``hiding.py``
shows them without secrets.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.configuration.layers import FILE as FILE
    from triggers.configuration.layers import Configuration as Configuration
    from triggers.configuration.layers import FoundValue as FoundValue
    from triggers.configuration.overriding import override as override
    from triggers.configuration.reading import read_configuration as read_configuration
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
