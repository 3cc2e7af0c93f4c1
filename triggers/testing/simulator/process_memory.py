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

from history.support.user_code import called_in
from triggers.service.signatures import innermost

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
    memory, ambiguous, services = ProcessMemory(), set[int](), list(services)
    memory.caches += [_without_new(owner) for owner in map(_owner_of, services) if owner is not None]
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


def _without_new(owner: object) -> Callable[[], None]:
    """Return a function that deletes the attributes that an object does not have yet."""
    names = set(getattr(owner, "__dict__", ()))

    def forget() -> None:
        for name in set(getattr(owner, "__dict__", ())) - names:
            delattr(owner, name)

    return forget


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
    """Yield a service's function, its decorators, and the functions that they name, all of its module."""
    home = innermost(cast("Any", service)).__module__
    waiting, seen = [service], set[int]()
    while waiting:
        function: Any = waiting.pop()
        if isinstance(function, functools.partial):
            waiting.append(cast("functools.partial[object]", function).func)
            continue
        function = called_in(function)
        function = getattr(function, "__func__", function)
        if hasattr(function, "__wrapped__"):
            waiting.append(function.__wrapped__)
        if not isinstance(function, FunctionType) or id(function) in seen or function.__module__ != home:
            continue
        seen.add(id(function))
        yield function
        waiting += [value for _, value, _, _ in _own(function) if isinstance(value, _CALLED)]


_CALLED = (FunctionType, MethodType, functools.partial)


def modules_of(service: object) -> Iterator[dict[str, Any]]:
    """Yield the globals of a service's functions."""
    for function in _functions(service):
        yield function.__globals__


def named_by(service: object) -> Iterator[tuple[str, Any, Callable[[Any], None] | None, bool]]:
    """Yield names, values and setters of a service and its module, and whether the service names them.

    It looks into containers, and into classes of the module and their objects.
    """
    waiting = [(name, value, assign, True) for name, value, assign, _ in _named(service, every=True)]
    for names in modules_of(service):
        waiting += [
            (name, value, _into(names, name), False)
            for name, value in names.items()
            if not name.startswith("__")
        ]
    home, seen = innermost(cast("Any", service)).__module__, set[int]()
    for name, value, assign, is_named in waiting:  # it grows meanwhile
        yield name, value, assign, is_named
        if id(value) not in seen:
            seen.add(id(value))
            waiting += [(f"{name}.{part}", inner, put, is_named) for part, inner, put in _inside(value, home)]


def _inside(value: Any, home: str) -> Iterator[tuple[object, Any, Callable[[Any], None] | None]]:
    made_by = cast("Any", type(value))  # a proxy may answer isinstance() for another object, or fail
    if issubclass(made_by, dict | list | deque):
        items = value.items() if issubclass(made_by, dict) else enumerate(value)
        yield from ((key, inner, functools.partial(value.__setitem__, key)) for key, inner in items)
    elif issubclass(made_by, tuple | set | frozenset):
        yield from ((index, inner, None) for index, inner in enumerate(value))
    if issubclass(made_by, defaultdict):
        yield "default_factory", value.default_factory, _into_attribute(value, "default_factory")
    if (value if issubclass(made_by, type) else made_by).__module__ == home:
        yield from ((name, inner, put) for name, inner, put, _ in _state_of(value))


def _named(service: object, *, every: bool = False) -> Iterator[Named]:
    owner = _owner_of(service)
    if owner is not None:
        yield from _state_of(owner)
        yield from _state_of(type(owner))
    for function in _functions(service):
        yield from _own(function, every=every)
        for default in function.__defaults__ or ():
            yield "a default", default, None, (id(function), "a default")
        defaults = function.__kwdefaults__ or {}
        for name, default in list(defaults.items()):
            yield name, default, _into(defaults, name) if every else None, (id(function), name)


def _owner_of(service: Any) -> object:
    """Return the object of a service that is a method, or that is called itself."""
    while isinstance(service, functools.partial) or hasattr(service, "__wrapped__"):
        service = service.func if isinstance(service, functools.partial) else service.__wrapped__
    return getattr(service, "__self__", None) if inspect.isroutine(service) else service


def _state_of(owner: object) -> Iterator[Named]:
    """Yield the attributes of a service's object and of its class: a new process makes new ones."""
    if inspect.ismodule(owner):
        return
    names = dict.fromkeys(getattr(owner, "__dict__", ()))
    for made_by in type(owner).__mro__ if not isinstance(owner, type) else ():
        slots = vars(made_by).get("__slots__", ())
        names |= dict.fromkeys([slots] if isinstance(slots, str) else slots)
    for name in names:
        value = (
            inspect.getattr_static(owner, name, None)
            if isinstance(owner, type)
            else getattr(owner, name, None)
        )
        if not name.startswith("__"):
            yield name, value, _into_attribute(owner, name), (id(owner), name)


def _into_attribute(owner: object, name: str) -> Callable[[Any], None]:
    # Also if it is frozen.
    setter: Callable[[Any, str, Any], None] = (
        type.__setattr__ if isinstance(owner, type) else object.__setattr__
    )

    def assign(value: Any) -> None:
        setter(owner, name, value)

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
