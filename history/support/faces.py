"""The face of a package: its public names, each loaded when it is first used.

A name that is not in a package's ``__all__``, which is made of these imports, may move to another module in
any release.
"""

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from history.support.namesakes import hiding


def lazy(package: str, **moved: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports its public names under ``TYPE_CHECKING``.

    The imports of that block are read when somebody first uses a name, so each name is written only once::

        if TYPE_CHECKING:
            from history.memory.history import MemoryHistory
        else:
            __getattr__ = lazy(__name__)

    ``dir`` and ``help`` then load each name, and show those that can be loaded.

    There, ``from other import *`` means each public name of the other package. A name that the package
    imports from itself is one of its modules. ``moved`` has names that are now public in another package, and
    can still be imported from this one. The package must come with its source: if only bytecode was shipped,
    an :class:`ImportError` says so.
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        return dict(_homes(package))

    def load(name: str) -> Any:
        face = sys.modules[package]
        if name == "__all__":
            value: Any = sorted(homes())
        elif name in homes():
            value = _value(package, *homes()[name])
        elif name in moved:
            value = getattr(_loaded(moved[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(face, name, value)  # the next access costs nothing
        return value

    def names() -> list[str]:
        face = sys.modules[package]
        loadable = {name for name in homes() if _can_load(load, name)}
        return sorted(loadable | {name for name in vars(face) if name.startswith("__")})

    vars(sys.modules[package])["__dir__"] = names
    return load


def _can_load(load: Callable[[str], Any], name: str) -> bool:
    try:
        load(name)
    except Exception:  # noqa: BLE001  (an extra is missing, or a driver is broken: help() would end with it)
        return False
    return True


def _value(package: str, module: str, name: str) -> Any:
    if module == package:
        return _loaded(f"{package}.{name}")
    return getattr(_loaded(module), name)


def _homes(package: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each name that a package imports under ``TYPE_CHECKING``, with its module and its name there."""
    face = sys.modules[package]
    # linecache also reads zip files. It does not need get_source(), which pytest's loader lacks for plugins.
    source = "".join(linecache.getlines(face.__file__ or "", vars(face)))
    if not source:
        raise ImportError(f"the source of {package} is missing: ship doubtless with its .py files")
    blocks = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    for node in (node for block in blocks if _is_for_types(block) for node in block.body):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [(alias.asname or alias.name, alias.name) for alias in node.names]
            if names == [("*", "*")]:
                names = [(name, name) for name in _loaded(node.module).__all__]
            yield from ((public, (node.module, name)) for public, name in names)


def _is_for_types(block: ast.If) -> bool:
    return isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"


def _loaded(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (problem := hiding()) is not None:
            raise ImportError(problem) from error
        raise
