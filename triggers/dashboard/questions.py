"""Questions to resolvers, with a time limit: a resolver that hangs blocks no page, and only a few threads."""

from collections import Counter
from concurrent.futures import Future, wait
from threading import Lock, Thread

from history.store.parking import Parked
from triggers.consumer.options import AnyTrigger
from triggers.operations.resolving import ResolverAnswer, answer_now

#: How long a page waits for the answer of a resolver, in seconds.
PATIENCE = 10.0

#: How many questions to the resolver of a trigger may have no answer yet.
MOST = 3


class Questions:
    """Asks resolvers, each question in a separate thread; safe to share between threads."""

    def __init__(self) -> None:
        self._unanswered: Counter[str] = Counter()
        self._lock = Lock()

    def ask(self, trigger: AnyTrigger | None, parked: Parked) -> ResolverAnswer:
        """Return the present answer of the resolver of a parked message's trigger, or that it has none.

        Raises:
            ConfigurationError: the same as :func:`~triggers.operations.resolving.answer_now`.
        """
        name = parked.trigger_name
        with self._lock:
            if self._unanswered[name] >= MOST:
                problem = f"it has not answered {MOST} earlier questions, so it was not asked"
                return ResolverAnswer(None, f"{problem}: see what it waits for, then try again")
            self._unanswered[name] += 1
        answer: Future[ResolverAnswer] = Future()
        # Not a thread that Python waits for at its end: nobody can stop a resolver that hangs.
        Thread(target=self._answer, args=(answer, trigger, parked), name="question", daemon=True).start()
        if not wait([answer], PATIENCE).done:
            return ResolverAnswer(None, f"it has not answered within {PATIENCE:g} s: try again later")
        return answer.result()

    def _answer(self, answer: "Future[ResolverAnswer]", trigger: AnyTrigger | None, parked: Parked) -> None:
        try:
            answer.set_result(answer_now(trigger, parked))
        except BaseException as error:  # noqa: BLE001  (raised again for the caller)
            answer.set_exception(error)
        finally:
            with self._lock:
                self._unanswered[parked.trigger_name] -= 1
