"""The face of a package: its public names, each loaded when it is first asked for.

What is not in a package's ``__all__`` may move to another module in any release.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from history.support.namesakes import hiding


def lazy(
    package: str, elsewhere: Mapping[str, Sequence[str]] | None = None, /, **modules: Sequence[str]
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    A keyword names a module of the package, and its value the public names there; ``elsewhere`` does so for
    modules by their dotted paths, such as those of packages further down.
    """
    paths = {**(elsewhere or {}), **{f"{package}.{module}": names for module, names in modules.items()}}
    homes = {name: path for path, names in paths.items() for name in names}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(homes[name])
        except ModuleNotFoundError as error:
            if (problem := hiding()) is not None:
                raise ImportError(problem) from error
            raise
        value = getattr(module, name)
        setattr(import_module(package), name, value)  # the next access costs nothing
        return value

    return load
