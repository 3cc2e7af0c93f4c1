"""The face of a package: its public names, each loaded when it is first asked for.

What is not in a package's ``__all__`` may move to another module in any release.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def lazy(package: str, **modules: Sequence[str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package; a keyword names a module of it, and the public names there."""
    homes = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(import_module(package), name, value)  # the next access costs nothing
        return value

    return load
