"""Runs with real deaths: SIGKILL ends the processes, so that no handler in them runs.

Each life of the process is a fork of the test's process, with the memory from before the first message. When
the script lets it die, it first sends its outside world: history, provider and effects. The next life begins
with that.
"""

import contextlib
import gc
import os
import pickle
import select
import signal
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from history.errors import ConfigurationError
from triggers.testing.simulator.course import Course
from triggers.testing.simulator.effects import Effects
from triggers.testing.simulator.report import ReportStep, steps_of

#: How long one life may take, in seconds, before it is given up.
LONGEST = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The result of a run at the end of a process: all that its successor, or the judge, must know."""

    steps: Sequence[ReportStep]
    had: Counter[Hashable]
    parked: set[int]
    unfinished: set[int]
    ended: bool = True
    world: Mapping[str, Any] = field(default_factory=dict[str, Any])


class RealRunError(RuntimeError):
    """A process of a run did not report its result."""


def check_real() -> None:
    """Refuse systems without fork.

    Raises:
        ConfigurationError: this system has no fork.
    """
    if not hasattr(os, "fork"):
        raise ConfigurationError("real", "this system has no fork", "leave it out, or run it on Linux")


def run_for_real(course: Course, ledger: Effects | None) -> Life:
    """Run a script in processes that are killed at its deaths.

    Raises:
        RealRunError: a process took too long, or ended in another way.
    """
    steps: list[ReportStep] = []
    work: Callable[[], None] = course.run
    while True:
        life = _one_life(work, course, ledger)
        steps += [replace(step, number=len(steps) + step.number) for step in life.steps]
        if life.ended:
            return replace(life, steps=steps)
        _adopt(life.world, course, ledger)
        work = course.go_on


def _one_life(work: Callable[[], None], course: Course, ledger: Effects | None) -> Life:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it does not need other threads
        process = os.fork()
    if process == 0:
        _live(work, course, ledger, writing)
    os.close(writing)
    try:
        answer = _read(reading)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    result = pickle.loads(answer) if answer else "it ended without a word"  # noqa: S301  (of our own)
    if not isinstance(result, Life):
        raise RealRunError(f"a process of a simulated run failed: {result}")
    return result


def _read(reading: int) -> bytes:
    """Read until the process is dead."""
    pickled = bytearray()
    while select.select([reading], [], [], LONGEST)[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return bytes(pickled)
        pickled += part
    return b""


def _live(work: Callable[[], None], course: Course, ledger: Effects | None, writing: int) -> NoReturn:
    """Work until the script lets this process die, or to the end, and send the result."""

    def die() -> None:
        _write(writing, _life(course, ledger, ended=False))
        os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait()  # until that has arrived

    gc.disable()  # objects of other tests, such as a JVM's, cannot be released in a fork
    course.killed = die
    try:
        course.rules.subject.forget_loop()
        work()
        _write(writing, _life(course, ledger, ended=True))
    except BaseException:  # noqa: BLE001  (nothing may come back into the test's own code)
        _write(writing, traceback.format_exc())
    finally:
        os._exit(0)


def _write(writing: int, what: Life | str) -> None:
    pickled = memoryview(pickle.dumps(what))
    while pickled:
        pickled = pickled[os.write(writing, pickled) :]


def _life(course: Course, ledger: Effects | None, *, ended: bool) -> Life:
    steps = steps_of(course, course.rules.messages)
    had = course.rules.count() if ended else Counter[Hashable]()
    world: dict[str, Any] = {} if ended else _world(course, ledger)
    return Life(
        steps=steps, had=had, parked=course.parked, unfinished=course.unfinished, ended=ended, world=world
    )


#: The attributes of a run that the next life continues with.
_KEPT = ("points", "parked", "kinds", "uuids", "unfinished", "_now")


def _world(course: Course, ledger: Effects | None) -> dict[str, Any]:
    return {
        "course": {name: getattr(course, name) for name in _KEPT},
        "choice": course.choice.left,
        "queue": (course.queue.waiting, course.queue.deliveries),
        "store": _content(course.store),
        "parking": _content(course.parking),
        "effects": None if ledger is None else dict(ledger.counts()),
    }


def _adopt(world: Mapping[str, Any], course: Course, ledger: Effects | None) -> None:
    vars(course).update(world["course"])
    course.deliveries = []
    course.choice.left = world["choice"]
    course.queue.waiting, course.queue.deliveries = world["queue"]
    _refill(course.store, world["store"])
    _refill(course.parking, world["parking"])
    if ledger is not None:
        ledger.refill(world["effects"])


def _content(part: object) -> dict[str, Any]:
    """Return the data of a history in memory and of its parts; not its locks and clocks."""
    content: dict[str, Any] = {}
    for name, value in vars(part).items():
        if _is_part(value):
            content[name] = _content(value)
        elif not callable(value):
            with contextlib.suppress(TypeError, AttributeError, pickle.PicklingError):
                content[name] = pickle.dumps(value)
    return content


def _refill(part: object, content: Mapping[str, Any]) -> None:
    for name, value in content.items():
        if isinstance(value, bytes):
            vars(part)[name] = pickle.loads(value)  # noqa: S301  (of our own)
        else:
            _refill(vars(part)[name], value)


def _is_part(value: object) -> bool:
    home = type(value).__module__
    return home.startswith("history.memory.") and hasattr(value, "__dict__")
