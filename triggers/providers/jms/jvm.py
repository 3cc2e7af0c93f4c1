"""The Java virtual machine of this process, and the only file that imports JPype.

A process has at most one JVM. It is started when it is first needed. If other code in this process already
runs one with JPype, both share it. It cannot be started again, and does not survive a fork. Java objects are
``Any`` above this file. JPype lets other Python threads run while Java works.
"""

import atexit
import gc
import glob
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from history.errors import ConfigurationError, MissingExtraError
from history.support.forks import keep as keep_of_parent

try:
    import jpype  # pyright: ignore[reportMissingTypeStubs]
    from jpype import config as _jpype_config  # pyright: ignore[reportMissingTypeStubs]
except ImportError as error:  # pragma: no cover  (the test environment has it)
    raise MissingExtraError("the JMS provider", extra="jms", package="jpype1") from error

#: As Any: its types say little, and nothing about Java's classes.
_java: Any = jpype

#: How long the end of the process waits for threads to leave Java, in seconds.
END_PATIENCE = 2.0

_starting = threading.Lock()
_entering = threading.Lock()
_ending = threading.Event()
_inside: Counter[int] = Counter()
_connections: dict[int, Any] = {}
_started: list[bool] = []
_forked: list[bool] = []
_classpath: set[str] = set()

#: Any exception that Java throws.
JavaError: type[Exception] = _java.JException

#: By default Java guards the stack of a process's first thread at a depth of 1 MB. It ends the process when
#: the stack grows that far, for example in a parser with a deeply nested body.
STACK = "-Xss8m"


def ensure_started(classpath: Sequence[str], options: Sequence[str]) -> None:
    """Start the JVM, or extend the class path of the running one; ``options`` are for its start.

    Raises:
        ConfigurationError: there is not a JVM, a pattern of the class path finds nothing, or this process was
            forked from one with a running JVM.
    """
    refuse_forked()
    jars = list(_expanded(classpath))
    with _starting:
        if _java.isJVMStarted():
            for jar in jars:
                if jar not in _classpath:
                    _java.addClassPath(jar)
        else:
            _start(jars, options)
        _classpath.update(jars)
        if not _started:
            _started.append(True)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_leave_to_parent)


def refuse_forked() -> None:
    """Refuse to use the JVM of this process's parent, which has no threads here and would never answer.

    Raises:
        ConfigurationError: this process was forked from one with a running JVM.
    """
    if _forked:
        raise ConfigurationError(
            "provider",
            "this process was forked after the Java virtual machine was started, and cannot use it",
            "fork before the first use of JMS, or start processes with multiprocessing's 'spawn'",
        )


def _leave_to_parent() -> None:
    """In a forked child: do not touch Java objects, not even when this process ends."""
    global _starting, _entering, _connections  # noqa: PLW0603  (other threads may hold these locks)
    _forked.append(True)
    _starting, _entering = threading.Lock(), threading.Lock()
    _inside.clear()
    # Java never answers here. But JPype calls it when Python collects garbage, and when an object of it goes.
    jpypes = _java._jpype._collect  # noqa: SLF001  (it has no public name)
    gc.callbacks[:] = [callback for callback in gc.callbacks if callback != jpypes]
    gc.freeze()
    keep_of_parent(_connections)
    _connections = {}
    _jpype_config.onexit = False


def _start(jars: list[str], options: Sequence[str]) -> None:
    try:
        # Python keeps the signals: at a SIGTERM Java would end itself in the middle of a drain.
        _java.startJVM("-Xrs", STACK, *options, classpath=jars, convertStrings=False, interrupt=False)
    except (_java.JVMNotFoundException, OSError, RuntimeError) as error:
        raise ConfigurationError(
            "provider",
            f"the Java virtual machine cannot be started ({error})",
            "install a Java runtime, set JAVA_HOME, and look at the jvm= options",
        ) from error
    atexit.register(_end)  # runs before JPype's, which then ends the JVM


def _expanded(patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        jars = sorted(glob.glob(str(Path(pattern).expanduser()), recursive=True))  # noqa: PTH207  (absolute)
        if not jars:
            raise ConfigurationError(
                "classpath", f"no file matches {pattern!r}", "give the jars of the provider's client"
            )
        yield from jars


def load(name: str, *, setting: str) -> Any:
    """Load a class.

    Raises:
        ConfigurationError: no jar has it, or a class that it needs is missing.
    """
    try:
        return _java.JClass(name)
    except (TypeError, JavaError) as error:
        raise ConfigurationError(
            setting,
            f"the class {name} is in none of the {len(_classpath)} jars, or needs another one ({error})",
            "add its jar to classpath=",
        ) from error


def is_a(value: Any, name: str) -> bool:
    """Whether a Java object has a class that may not exist here."""
    try:
        return isinstance(value, _class(name))
    except TypeError:
        return False


@cache
def _class(name: str) -> Any:
    """Look a class up once; a missing class is looked up again."""
    return _java.JClass(name)


class ThrownError(Exception):
    """Java's exception as text: reading the exception itself later would call Java again, at any time.

    ``kinds`` are the simple names of the classes of the exception, and of its causes.
    """

    def __init__(self, thrown: BaseException) -> None:
        text, kinds = "", set[str]()
        cause: Any = thrown
        while cause is not None:
            kinds.update(error_type.__name__.rpartition(".")[2] for error_type in type(cause).__mro__)
            said = str(cause)
            if str(cause.getMessage()) not in text:  # most repeat the text of their cause
                text = f"{text}, by {said}" if text else said
            cause = cause.getCause()
        super().__init__(text)
        self.kinds = frozenset(kinds)


class EndingError(Exception):
    """This process ends, or was forked: no thread may start to work in Java any more."""


@contextmanager
def inside() -> Generator[None, None, None]:
    """Work in Java.

    Raises:
        ThrownError: Java threw an exception.
        EndingError: this process ends, or was forked.
    """
    with _entering:
        if _ending.is_set():
            raise EndingError("this process ends")
        if _forked:
            raise EndingError("this process was forked")
        _inside[threading.get_ident()] += 1
    try:
        yield
    except JavaError as error:
        raise ThrownError(error) from None
    finally:
        with _entering:
            _inside[threading.get_ident()] -= 1


def keep(connection: Any) -> None:
    """Close a connection when the process ends, unless it was closed before."""
    _connections[id(connection)] = connection


def close_quietly(closable: Any) -> None:
    """Close something that may be broken already."""
    _connections.pop(id(closable), None)
    with suppress(ThrownError, EndingError), inside():
        closable.close()


def _end() -> None:
    """Make all threads leave Java: one that returns from there after Python's end would abort the process.

    A blocked thread returns when its connection is closed. The JVM waits for the threads of connections that
    do not close in time; in this case we do not stop it, and it ends with the process.
    """
    _ending.set()
    closing = threading.Thread(target=_close_all, daemon=True)
    closing.start()
    deadline = time.monotonic() + END_PATIENCE
    while closing.is_alive() or any(_inside.values()):
        if time.monotonic() >= deadline:
            _jpype_config.destroy_jvm = False
            return
        time.sleep(0.005)


def _close_all() -> None:
    for connection in list(_connections.values()):
        with suppress(JavaError):
            connection.close()


def listen(interface: str, method: str, call: Callable[[Any], None]) -> Any:
    """Return a Java object with one method, which calls ``call`` in a Java thread."""
    return _java.JProxy(interface, dict={method: call})


def java_value(value: Any) -> Any:
    """Return a Python value as the Java object that JMS wants: Boolean, Integer, Long, Double, String, bytes.

    Raises:
        OverflowError: a whole number has more than 64 bits.
        UnicodeEncodeError: a text is not valid Unicode.
    """
    match value:
        case None:
            return None
        case bool():
            return _class("java.lang.Boolean")(value)
        case int():
            fits = -(2**31) <= value < 2**31
            return _class("java.lang.Integer" if fits else "java.lang.Long")(value)
        case float():
            return _class("java.lang.Double")(value)
        case bytes():
            return _java.JArray(_java.JByte)(value)
        case _:
            return _java.JString(value)


def java_bytes(size: int) -> Any:
    """Return an array of so many bytes, for Java to fill."""
    return _java.JArray(_java.JByte)(size)


def python_value(value: Any) -> Any:
    """Return a value of a JMS message in Python's form; numbers of all sizes as int and float."""
    if value is None:
        return None
    if type(value).__name__ == "java.lang.Boolean":
        return bool(value == True)  # noqa: E712  (a Java Boolean is not a Python bool)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return bytes(value) if type(value).__name__ == "byte[]" else str(value)


def set_property(bean: Any, path: str, value: str | int | bool) -> None:  # noqa: FBT001  (a value)
    """Set ``one.two`` by ``bean.getOne().setTwo(value)``.

    Raises:
        ConfigurationError: the property does not exist, or has another type.
    """
    *way, last = path.split(".")
    try:
        for step in way:
            bean = getattr(bean, f"get{step[:1].upper()}{step[1:]}")()
        setter = f"set{last[:1].upper()}{last[1:]}"
        for method in bean.getClass().getMethods():
            if str(method.getName()) == setter and len(method.getParameterTypes()) == 1:
                method.invoke(bean, [_as_type(str(method.getParameterTypes()[0].getName()), value)])
                return
        problem = "the property does not exist"
    except (AttributeError, TypeError, ValueError, JavaError) as error:
        problem = f"it cannot be set so ({error})"
    raise ConfigurationError(f"factory.{path}", problem, "look at the bean properties of the factory's class")


def _as_type(name: str, value: str | int | bool) -> Any:  # noqa: FBT001  (a value)
    match name.rpartition(".")[2]:
        case "int" | "Integer" | "short" | "Short":
            return _class("java.lang.Integer")(int(value))
        case "long" | "Long":
            return _class("java.lang.Long")(int(value))
        case "double" | "Double" | "float" | "Float":
            return _class("java.lang.Double")(float(value))
        case "boolean" | "Boolean":
            booleans = {"true": True, "false": False}
            if str(value).lower() not in booleans:
                raise ValueError(f"{value!r} is neither true nor false")
            return _class("java.lang.Boolean")(booleans[str(value).lower()])
        case _:
            return _java.JString(str(value))


def look_up(name: str, environment: dict[str, str]) -> Any:
    """Look a name up in JNDI."""
    table = _java.JClass("java.util.Hashtable")()
    for key, value in environment.items():
        table.put(key, value)
    thread = _class("java.lang.Thread").currentThread()
    # JNDI finds its factories through the thread, and a Python thread has only the JVM's own class loader.
    thread.setContextClassLoader(_class("java.lang.ClassLoader").getSystemClassLoader())
    context = _java.JClass("javax.naming.InitialContext")(table)
    try:
        return context.lookup(name)
    finally:
        context.close()


def detach() -> None:
    """Free what Java keeps for this thread; the thread is attached again when needed."""
    if threading.current_thread() is not threading.main_thread():
        with suppress(EndingError), inside():
            if _java.isJVMStarted():  # else no thread has used Java
                _class("java.lang.Thread").detach()
        _inside.pop(threading.get_ident(), None)
