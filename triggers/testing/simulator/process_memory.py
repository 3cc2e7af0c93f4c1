"""What a process forgets when it dies: plain containers, caches and variables beside the service.

Found are sets, dictionaries, lists and the like that the service and the functions of its module name, in
their globals and closures. What the counting of effects or the resolver can reach stands for something
that outlives the process, such as a database, and so does every object of a class of one's own.
"""

import copy
import inspect
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, cast

#: What is plain memory of a process.
CONTAINERS = (set, dict, list, deque, bytearray, Counter, OrderedDict, defaultdict)
_PLAIN = (int, float, str, bytes, bool, type(None), tuple, frozenset)


@dataclass(slots=True)
class ProcessMemory:
    """The containers, variables and caches that a death empties, as they were at the beginning."""

    containers: dict[str, tuple[Any, Any]] = field(default_factory=dict[str, tuple[Any, Any]])
    variables: list[tuple[Callable[[Any], None], Any]] = field(
        default_factory=list[tuple[Callable[[Any], None], Any]]
    )
    caches: list[Callable[[], Any]] = field(default_factory=list[Callable[[], Any]])
    ambiguous: frozenset[str] = frozenset()

    def begin(self) -> None:
        """Put everything back as it was before the first message."""
        self._restore(self.containers)

    def die(self) -> None:
        """Put back what a process forgets."""
        self._restore(self.containers)

    def survive(self) -> None:
        """Put back what is certainly forgotten, and keep what may stand for a database."""
        self._restore({name: kept for name, kept in self.containers.items() if name not in self.ambiguous})

    def _restore(self, containers: dict[str, tuple[Any, Any]]) -> None:
        for container, before in containers.values():
            refill(container, copy.deepcopy(before))
        for assign, value in self.variables:
            assign(value)
        for clear in self.caches:
            clear()


def memory_of(
    services: Iterable[Callable[..., Any]], *, durable: Iterable[object], reset: object
) -> ProcessMemory:
    """Return what services keep in their process, as it is now."""
    kept = {id(one) for root in durable for one in _reached(root)}
    cleared = {id(one) for one in _reached(reset)}
    memory, ambiguous = ProcessMemory(), set[str]()
    for service in services:
        for name, value, assign in _named(service):
            clear = getattr(value, "cache_clear", None)
            if callable(clear):
                memory.caches.append(clear)
            elif id(value) in kept:
                continue
            elif type(value) in CONTAINERS:
                try:
                    memory.containers[name] = (value, copy.deepcopy(value))
                except Exception:  # noqa: BLE001, S112  (what cannot be copied is no plain memory)
                    continue
                if id(value) in cleared:
                    ambiguous.add(name)
            elif type(value) in _PLAIN and assign is not None:
                memory.variables.append((assign, value))
    memory.ambiguous = frozenset(ambiguous)
    return memory


def refill(container: Any, content: Any) -> None:
    """Let a container hold this content and nothing else."""
    container.clear()
    if isinstance(container, list | deque | bytearray):
        cast("list[Any]", container).extend(content)
    else:
        container.update(content)


def _functions(service: object) -> Iterator[FunctionType]:
    """Yield a function and those of its module that it names, directly or not."""
    waiting, seen = [service], set[int]()
    while waiting:
        one = inspect.unwrap(cast("Any", waiting.pop())) if waiting else None
        if isinstance(one, MethodType):
            one = one.__func__
        if not isinstance(one, FunctionType) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        for _, value, _ in _own(one):
            if isinstance(value, FunctionType | MethodType) and value.__module__ == one.__module__:
                waiting.append(value)


def _named(service: object) -> Iterator[tuple[str, Any, Callable[[Any], None] | None]]:
    for function in _functions(service):
        yield from _own(function)


def _own(function: FunctionType) -> Iterator[tuple[str, Any, Callable[[Any], None] | None]]:
    """Yield what a function names in its closure and globals, and what assigns to it where it does so."""
    stored = _stored(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue
        yield name, value, _into_cell(cell) if name in stored else None
    for name in _names(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            yield name, value, _into(function.__globals__, name) if name in stored else None


def _into_cell(cell: CellType) -> Callable[[Any], None]:
    def assign(value: Any) -> None:
        cell.cell_contents = value

    return assign


def _into(names: dict[str, Any], name: str) -> Callable[[Any], None]:
    def assign(value: Any) -> None:
        names[name] = value

    return assign


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _names(code: CodeType) -> Iterable[str]:
    return dict.fromkeys(name for one in _codes(code) for name in one.co_names)


def _stored(code: CodeType) -> frozenset[str]:
    import dis  # noqa: PLC0415  (needed once for each service)

    wanted = {"STORE_GLOBAL", "STORE_DEREF", "STORE_NAME"}
    found = {
        step.argval for one in _codes(code) for step in dis.get_instructions(one) if step.opname in wanted
    }
    return frozenset(str(name) for name in found)


def _reached(root: object) -> Iterator[object]:
    """Yield what is reached from a function or object: its closure, globals that it names, attributes."""
    waiting: list[tuple[object, int]] = [(root, 0)]
    seen: set[int] = set()
    while waiting:
        one, depth = waiting.pop()
        if id(one) in seen or depth > _DEPTH:
            continue
        seen.add(id(one))
        yield one
        waiting += [(value, depth + 1) for value in _parts(one)]


_DEPTH = 6


def _parts(one: object) -> Iterable[object]:
    if isinstance(one, MethodType):
        return [one.__self__, one.__func__]
    if isinstance(one, FunctionType):
        return [value for _, value, _ in _own(one)] + list(one.__defaults__ or ())
    if isinstance(one, tuple):
        return cast("tuple[object, ...]", one)
    owner = getattr(one, "__self__", None)  # a method of a built-in container
    if owner is not None and not inspect.ismodule(owner):
        return [owner]
    if inspect.ismodule(one) or isinstance(one, type):
        return []
    return list(getattr(one, "__dict__", {}).values())
