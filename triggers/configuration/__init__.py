"""Where a service's settings come from besides its code: the environment and ``doubtless.toml``.

One rule for all: the command line wins over the environment, that over the file, and that over what the code
says (``@trigger``, and its defaults). The library itself reads neither; the command line does, and whoever
calls :func:`read_configuration`. ``reading.py`` reads both, by the keys of ``model.py`` with times as in
``durations.py`` and within ``limits.py``. ``complaints.py`` says what is wrong, and ``nearest.py`` what to
write instead of an unknown name. ``layers.py`` is what is known and who said it; ``overriding.py`` gives it
to triggers, ``hiding.py`` shows it without secrets.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.configuration.layers import FILE, Configuration, Found
    from triggers.configuration.overriding import override
    from triggers.configuration.reading import read_configuration
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = [
    "FILE",
    "Configuration",
    "Found",
    "override",
    "read_configuration",
]
