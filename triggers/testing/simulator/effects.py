"""Count effects: by a ledger of ours, a callable, a list, a mapping, or the rows of a table."""

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, Protocol, cast

from history.errors import ConfigurationError
from triggers.testing.simulator.process_memory import CONTAINERS, refill
from triggers.testing.simulator.script import Fault

#: The forms of a count of effects: how many, how many of each, or all of them.
Counted = int | Mapping[Any, int] | Iterable[Any]

#: The name of effects that are counted without names.
UNNAMED = "effect"


class EffectFailedError(ConnectionError):
    """The simulated target of an effect did not answer; the effect did not happen, or nobody knows."""


class AtEffects(Protocol):
    """The run in which effects happen."""

    def before_effect(self, step: str, faults: Iterable[Fault]) -> Fault | None:
        """Reach the point of an effect; raise if the process dies, and return what else goes wrong."""
        ...

    def die(self) -> None:
        """End the process."""
        ...


class Effects:
    """A target of effects that remembers each, and where the simulator can let things go wrong.

    The process may die before and after each effect, a copy may be delivered meanwhile, and the target may
    fail (:class:`EffectFailedError`, a ``ConnectionError``) before the effect happens. With
    ``replies_lost=True`` it may also fail after it happened, as real targets do.
    """

    def __init__(self, *, replies_lost: bool = False) -> None:
        self.run: AtEffects | None = None
        self._counts: Counter[Hashable] = Counter()
        self._faults = [Fault.DIE, Fault.DIE_AFTER, Fault.FAIL, Fault.COPY, Fault.PAUSE]
        if replies_lost:
            self._faults.append(Fault.REPLY_LOST)

    def record(self, key: Hashable = UNNAMED) -> None:
        """Cause an effect, whatever happened before."""
        with self._having(key):
            self._counts[key] += 1

    def record_once(self, key: Hashable = UNNAMED) -> None:
        """Cause an effect unless it has already happened, like an idempotent target."""
        with self._having(key):
            self._counts[key] = 1

    @contextmanager
    def _having(self, key: Hashable) -> Generator[None]:
        """Apply the faults before and after an effect, which happens in between."""
        run, step = self.run, f"effect {key}"
        fault = None if run is None else run.before_effect(step, self._faults)
        if fault is Fault.FAIL:
            raise EffectFailedError(f"{step} did not happen")
        yield
        if run is not None and fault is Fault.DIE_AFTER:
            run.die()
        if fault is Fault.REPLY_LOST:
            raise EffectFailedError(f"nobody knows whether {step} happened")

    def has(self, key: Hashable = UNNAMED) -> bool:
        """Whether an effect happened: for resolvers."""
        return self._counts[key] > 0

    def count(self, key: Hashable = UNNAMED) -> int:
        """Return how often an effect happened."""
        return self._counts[key]

    def counts(self) -> Mapping[Hashable, int]:
        """Return how often each effect happened."""
        return dict(+self._counts)

    def clear(self) -> None:
        """Forget all effects, as before the first message."""
        self._counts.clear()

    def refill(self, counts: Mapping[Hashable, int]) -> None:
        """Hold exactly these effects, as another process has left them."""
        self._counts = Counter(dict(counts))

    def __len__(self) -> int:
        return self._counts.total()


class EffectsBeginning:
    """Resets effects to the state before the first message, and counts them with :meth:`count`.

    ``reset`` is the user's; without it, plain containers get their present content back.

    Raises:
        ConfigurationError: the effects count nothing.
    """

    def __init__(self, effects: Any, reset: Callable[[], object] | None) -> None:
        self.reset = reset
        self.count = _reader(effects)
        self._bring_back: Callable[[], object] | None = None
        if isinstance(effects, Effects):
            self._bring_back = effects.clear
        elif reset is None and type(effects) in CONTAINERS:
            self._bring_back = partial(refill, effects, copy(effects))
        self._leave = None if isinstance(effects, Effects) else self._bring_back
        self._had: Counter[Hashable] | None = None

    def reach(self) -> None:
        """Reset everything.

        Raises:
            ConfigurationError: effects of the run before still exist.
        """
        for bring_back in (self._bring_back, self.reset):
            if bring_back is not None:
                bring_back()
        had = self.count()
        if self._had is None:
            self._had = had
        elif had != self._had:
            raise ConfigurationError(
                "reset",
                "it brings back other effects than at first, so those of two runs would be counted together"
                if self.reset is not None
                else "without it the effects of one run are there in the next one, and are counted twice",
                "give a function that brings back what was there before the first message",
            )

    def leave(self) -> None:
        """Leave plain containers as they were found."""
        if self._leave is not None:
            self._leave()


def _reader(effects: Any) -> Callable[[], Counter[Hashable]]:
    """Return a function that counts effects by their keys.

    Raises:
        ConfigurationError: it counts nothing.
    """
    if isinstance(effects, Effects):
        return lambda: Counter(dict(effects.counts()))
    if callable(effects):
        counting = cast("Callable[[], Counted]", effects)
        return lambda: counter_of(counting())
    if isinstance(effects, Mapping) or (
        isinstance(effects, Iterable) and not isinstance(effects, str | bytes)
    ):
        return lambda: counter_of(cast("Counted", effects))
    raise ConfigurationError(
        "effects",
        f"{effects!r:.60} counts nothing",
        "give simulator.effects(), a list, a mapping of counts, or a function that returns one or a number",
    )


def counter_of(counted: Counted) -> Counter[Hashable]:
    """Return counts by their keys, for any form of a count.

    Raises:
        ConfigurationError: it is not a count.
    """
    if isinstance(counted, int):
        return Counter({UNNAMED: int(counted)})
    if isinstance(counted, Mapping):
        named = cast("Mapping[Any, Any]", counted)
        if all(isinstance(count, int) for count in named.values()):
            return +Counter({_key(key): int(count) for key, count in named.items()})
        return Counter(_key(key) for key in named)
    if isinstance(counted, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
        return Counter(_key(effect) for effect in counted)
    raise ConfigurationError(
        "effects", f"its function returned {counted!r:.60}", "return a number, a mapping of counts or a list"
    )


def _key(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return cast("Hashable", value)
