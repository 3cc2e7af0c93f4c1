"""The memory that a process loses when it dies: plain containers, caches and variables of the service.

It finds sets, dictionaries, lists and the like in the globals and closures of the service and of the
functions of its module. Some objects represent something that outlives the process, such as a database: every
object that the counter of effects or the resolver can reach, and every object of a user's class. If such an
object is a container or a variable that the service names, each run begins with its first content.
"""

import copy
import functools
import inspect
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, cast

#: The types of plain memory of a process.
CONTAINERS = (set, dict, list, deque, bytearray, Counter, OrderedDict, defaultdict)
#: The place of a variable: the identity of the cell, or of the globals of a module, and its name.
Place = tuple[int, str]

#: A name in a function: the name, the value, a setter if the function assigns to it, and its place.
Named = tuple[str, Any, Callable[[Any], None] | None, Place]

_PLAIN = (int, float, str, bytes, bool, type(None), tuple, frozenset)


@dataclass(slots=True)
class ProcessMemory:
    """The containers, variables and caches that a death empties, as they were at the beginning.

    Containers are stored under their identity; those of ``lasting`` outlive a death.
    """

    containers: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])
    lasting: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])
    lasting_variables: list[tuple[Callable[[Any], None], Any]] = field(
        default_factory=list[tuple[Callable[[Any], None], Any]]
    )
    variables: list[tuple[Callable[[Any], None], Any]] = field(
        default_factory=list[tuple[Callable[[Any], None], Any]]
    )
    caches: list[Callable[[], Any]] = field(default_factory=list[Callable[[], Any]])
    ambiguous: frozenset[int] = frozenset()

    def begin(self) -> None:
        """Put everything back as it was before the first message."""
        self._restore(self.containers | self.lasting)
        for assign, value in self.lasting_variables:
            assign(value)

    def die(self) -> None:
        """Put back what a process forgets."""
        self._restore(self.containers)

    def survive(self) -> None:
        """Put back what is certainly forgotten, and keep what may represent a database."""
        self._restore({key: kept for key, kept in self.containers.items() if key not in self.ambiguous})

    def _restore(self, containers: dict[int, tuple[Any, Any]]) -> None:
        for container, before in containers.values():
            refill(container, copy.deepcopy(before))
        for assign, value in self.variables:
            assign(value)
        for clear in self.caches:
            clear()


def memory_of(
    services: Iterable[Callable[..., Any]], *, durable: Iterable[object], reset: object
) -> ProcessMemory:
    """Return the memory of services in their process, as it is now."""
    kept, places = _kept(durable)
    cleared = {id(value) for value in _reached(reset)}
    memory, ambiguous = ProcessMemory(), set[int]()
    for _, value, assign, position in (named for service in services for named in _named(service)):
        lasts = position in places or id(value) in kept
        clear = getattr(value, "cache_clear", None)
        if callable(clear):
            memory.caches.append(clear)
        elif type(value) in CONTAINERS:
            try:
                copied = copy.deepcopy(value)
            except Exception:  # noqa: BLE001, S112  (an object that cannot be copied is not plain memory)
                continue
            (memory.lasting if lasts else memory.containers)[id(value)] = (value, copied)
            if not lasts and id(value) in cleared:
                ambiguous.add(id(value))
        elif type(value) in _PLAIN and assign is not None:
            (memory.lasting_variables if lasts else memory.variables).append((assign, value))
    memory.ambiguous = frozenset(ambiguous)
    return memory


def _kept(durable: Iterable[object]) -> tuple[set[int], set[Place]]:
    """Return what outlives the process: the reached objects, and the places of their names.

    A number or text is identified only by its place: the same value may be anywhere else.
    """
    objects, places = set[int](), set[Place]()
    for kept in (value for root in durable for value in _reached(root)):
        if type(kept) not in _PLAIN:
            objects.add(id(kept))
        if isinstance(kept, FunctionType):
            places.update(position for _, _, _, position in _own(kept))
    return objects, places


def refill(container: Any, content: Any) -> None:
    """Make a container hold this content and nothing else."""
    container.clear()
    if isinstance(container, list | deque | bytearray):
        cast("list[Any]", container).extend(content)
    else:
        container.update(content)


def _functions(service: object) -> Iterator[FunctionType]:
    """Yield a function and the functions of its module that it names, directly or not."""
    waiting, seen = [service], set[int]()
    while waiting:
        function = inspect.unwrap(cast("Any", waiting.pop())) if waiting else None
        if isinstance(function, MethodType):
            function = function.__func__
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        yield function
        for _, value, _, _ in _own(function):
            if isinstance(value, FunctionType | MethodType) and value.__module__ == function.__module__:
                waiting.append(value)


def named_by(service: object) -> Iterator[tuple[str, Any, Callable[[Any], None] | None]]:
    """Yield the names, values and setters in a service and its module's functions, and in objects there."""
    if isinstance(service, MethodType):
        for name, value, assign, _ in _state_of(service.__self__):
            yield name, value, assign
    for function in _functions(service):
        for name, value, assign, _ in _own(function, every=True):
            yield name, value, assign
            if type(value).__module__ == function.__module__:
                yield from ((f"{name}.{part}", content, put) for part, content, put, _ in _state_of(value))


def _named(service: object) -> Iterator[Named]:
    if isinstance(service, MethodType):
        yield from _state_of(service.__self__)
    for function in _functions(service):
        yield from _own(function)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            yield "a default", default, None, (id(function), "a default")


def _state_of(owner: object) -> Iterator[Named]:
    """Yield the attributes of a method's object: a new process makes a new object."""
    names: dict[str, Any] = {} if inspect.ismodule(owner) else getattr(owner, "__dict__", {})
    for name, value in list(names.items()):
        yield name, value, _into_attribute(owner, name), (id(owner), name)


def _into_attribute(owner: object, name: str) -> Callable[[Any], None]:
    def assign(value: Any) -> None:
        setattr(owner, name, value)

    return assign


def _own(function: FunctionType, *, every: bool = False) -> Iterator[Named]:
    """Yield the names in a function's closure and globals, with a setter if the function assigns to them.

    With ``every``, each has a setter.
    """
    stored = _stored(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:  # it is still empty
            continue
        yield name, value, _into_cell(cell) if every or name in stored else None, (id(cell), name)
    for name in _names(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            assign = _into(function.__globals__, name) if every or name in stored else None
            yield name, value, assign, (id(function.__globals__), name)


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
    return dict.fromkeys(name for inner in _codes(code) for name in inner.co_names)


def _stored(code: CodeType) -> frozenset[str]:
    import dis  # noqa: PLC0415  (needed once for each service)

    wanted = {"STORE_GLOBAL", "STORE_DEREF", "STORE_NAME"}
    names = {
        step.argval for inner in _codes(code) for step in dis.get_instructions(inner) if step.opname in wanted
    }
    return frozenset(str(name) for name in names)


def _reached(root: object) -> Iterator[object]:
    """Yield objects that a function or object reaches: its closure, the globals it names, attributes."""
    waiting: list[tuple[object, int]] = [(root, 0)]
    seen: set[int] = set()
    while waiting:
        reached, depth = waiting.pop()
        if id(reached) in seen or depth > _DEPTH:
            continue
        seen.add(id(reached))
        yield reached
        waiting += [(value, depth + 1) for value in _parts(reached)]


_DEPTH = 6


def _parts(holder: object) -> Iterable[object]:
    if isinstance(holder, MethodType):
        return [holder.__self__, holder.__func__]
    if isinstance(holder, FunctionType):
        return [value for _, value, _, _ in _own(holder)] + list(holder.__defaults__ or ())
    if isinstance(holder, tuple):
        return cast("tuple[object, ...]", holder)
    if isinstance(holder, functools.partial):
        bound = cast("functools.partial[object]", holder)
        return [bound.func, *bound.args, *bound.keywords.values()]
    owner = getattr(holder, "__self__", None)  # a method of a built-in container
    if owner is not None and not inspect.ismodule(owner):
        return [owner]
    return _attributes(holder)


def _attributes(value: object) -> Iterable[object]:
    """Return the attributes of an object, and the callables in it if it is used as a function."""
    if inspect.ismodule(value) or isinstance(value, type):
        return []
    called = inspect.getattr_static(type(value), "__call__", None)
    functions = [called] if isinstance(called, FunctionType) else []
    return [*getattr(value, "__dict__", {}).values(), *functions]
