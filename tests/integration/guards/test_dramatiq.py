"""A guarded actor of Dramatiq runs with Dramatiq's worker threads and its broker for tests."""

from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import GroupCallbacks, Pipelines
from dramatiq.rate_limits.backends import StubBackend as StubRateLimits
from dramatiq.results import ResultFailure, ResultMissing, Results
from dramatiq.results.backends import StubBackend
from dramatiq.worker import Worker

from history import MemoryHistory
from history.bridge import drive
from tests.fixtures.waiting import eventually
from triggers.guards import Guard, protect
from triggers.guards.dramatiq import guarded
from triggers.testing.redis_server import free_port

Declare = Callable[..., Any]


#: As Any: they have no types.
TheResults: Any = Results
TheDramatiq: Any = dramatiq
TheRateLimits: Any = StubRateLimits


def _itself(order: str) -> str:
    return order


def _once(retries: int, _error: BaseException) -> bool:
    return retries < 1


class Shop:
    """A broker with a guard, and a worker."""

    def __init__(self, **options: Any) -> None:
        self.history = MemoryHistory()
        self.done: list[str] = []
        self.broker: Any = StubBroker()
        self.broker.emit_after("process_boot")
        self.backend: Any = StubBackend()
        rate_limits: Any = TheRateLimits()
        self.broker.add_middleware(TheResults(backend=self.backend))
        self.broker.add_middleware(GroupCallbacks(rate_limits))
        self.broker.add_middleware(guarded(history=self.history, **options))
        self.worker: Any = Worker(self.broker, worker_timeout=10, worker_threads=2)

    def actor(self, function: Callable[..., Any], **options: Any) -> Any:
        known: dict[str, Any] = {"min_backoff": 1, "max_backoff": 1, **options}
        return dramatiq.actor(broker=self.broker, **known)(function)

    def work(self) -> None:
        """Wait until all messages and retries are done."""
        self.broker.join("default", fail_fast=False)
        self.worker.join()

    @property
    def parked(self) -> list[Any]:
        return [one.message.body for one in drive(self.history.parking.list()) if one.message is not None]


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    shop.worker.start()
    yield shop
    shop.worker.stop()
    shop.broker.close()


def test_a_message_that_comes_again_runs_once_and_keeps_its_result(shop: Shop) -> None:
    def book(order: str) -> str:
        shop.done.append(order)
        return f"booked {order}"

    actor = shop.actor(book, store_results=True)
    message = actor.send("1")
    shop.work()
    shop.broker.enqueue(message)
    shop.work()

    assert shop.done == ["1"]
    assert message.get_result(backend=shop.backend) == "booked 1"


@pytest.mark.parametrize("key", ["order", _itself])
def test_a_key_makes_two_messages_one(shop: Shop, key: Any) -> None:
    def book(order: str) -> None:
        shop.done.append(order)

    actor = shop.actor(book, uuid=key)
    actor.send("1")
    shop.work()
    second = actor.send(order="1")
    shop.work()

    assert shop.done == ["1"]
    with pytest.raises(ResultMissing):
        second.get_result(backend=shop.backend)


def test_pipelines_go_on_where_a_worker_died_before_it_sent_the_next(shop: Shop) -> None:
    def step(name: str, done: str) -> str:
        shop.done.append(done)
        return f"{done}{name}"

    actor = shop.actor(step, store_results=True)
    links = [actor.message("a", ""), actor.message("b"), actor.message("c")]
    chain: Any = dramatiq.pipeline(links, broker=shop.broker)
    first = chain.messages[0]
    chain.run()
    shop.work()
    shop.broker.enqueue(first)  # as if a worker had died before its acknowledgement
    shop.work()

    assert links[-1].get_result(backend=shop.backend, block=True) == "abc"
    assert (shop.done, shop.parked) == (["", "a", "ab"], [])


def test_a_link_keeps_its_result_before_it_is_known_to_be_done(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the pipeline goes on, no matter when its worker dies."""

    def step(done: str) -> str:
        shop.done.append(done)
        return f"{done}!"

    def nothing(*_args: object, **_named: object) -> None:
        """Do nothing, like Results and Pipelines in a worker that has died."""

    actor = shop.actor(step)  # without store_results
    chain: Any = dramatiq.pipeline([actor.message("a"), actor.message()], broker=shop.broker)
    first = chain.messages[0]
    with monkeypatch.context() as patched:
        patched.setattr(Results, "after_process_message", nothing)
        patched.setattr(Pipelines, "after_process_message", nothing)
        chain.run()
        shop.work()
    assert shop.done == ["a"]
    shop.broker.enqueue(first)
    shop.work()

    assert shop.done == ["a", "a!"]


@pytest.mark.parametrize("key", [None, "order"])
@pytest.mark.parametrize("dies", [False, True])
def test_what_follows_a_message_happens_once_however_often_it_comes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, dies: bool, key: str | None
) -> None:
    def book(order: str) -> str:
        shop.done.append(order)
        return order

    def note(message: Any, result: str) -> None:
        shop.done.append(f"{result} noted by {message['actor_name']}")

    def end() -> None:
        shop.done.append("all")

    if dies:  # after the service has run, before Dramatiq knows
        monkeypatch.setattr(Guard, "handle_message", _dying(Guard.handle_message))
    guarded_options = {} if key is None else {"uuid": key}
    actor = shop.actor(book, on_success="note", store_results=True, **guarded_options)
    shop.actor(note)
    group: Any = TheDramatiq.group([actor.message("1"), actor.message("2")], broker=shop.broker)
    group.add_completion_callback(shop.actor(end).message())
    held: list[Any] = []

    def hold(part: Any, **_terms: Any) -> None:
        held.append(part)

    with monkeypatch.context() as patch:
        patch.setattr(shop.broker, "enqueue", hold)
        group.run()

    for _copy in range(2):
        shop.broker.enqueue(held[0])
        shop.work()
    assert shop.done == ["1", "1 noted by book"], "a copy does not count as another part of the group"
    shop.broker.enqueue(held[1])
    shop.work()

    assert sorted(shop.done) == ["1", "1 noted by book", "2", "2 noted by book", "all"]


def test_a_copy_under_another_id_counts_in_its_own_group_where_results_are_kept() -> None:
    shop = Shop(keep_result=True)

    def book(order: str) -> str:
        return order

    def end(number: int) -> None:
        results = [shop.backend.get_result(part) for part in groups[number].children]
        shop.done.append(f"group {number}: {results}")

    shop.worker.start()
    actor, ended = shop.actor(book, uuid="order", store_results=True), shop.actor(end, max_retries=0)
    groups: list[Any] = []
    for number in (0, 1):
        groups.append(TheDramatiq.group([actor.message("1"), actor.message("2")], broker=shop.broker))
        groups[-1].add_completion_callback(ended.message(number))
        groups[-1].run()
        shop.work()
    shop.worker.stop()
    shop.broker.close()

    assert shop.done == ["group 0: ['1', '2']", "group 1: ['1', '2']"]


def _dying(handle: Any) -> Any:
    """Return ``handle`` for a worker that dies after the first run of each message."""
    died: set[str] = set()

    def handle_and_die(guard: Any, message: Any, call: Any, **terms: Any) -> Any:
        outcome = handle(guard, message, call, **terms)
        if outcome.executed and guard.name == "book" and message.uuid not in died:
            died.add(message.uuid)
            raise dramatiq.errors.Retry(delay=1)
        return outcome

    return handle_and_die


def test_a_class_may_be_an_actor_and_have_a_key(shop: Shop) -> None:
    done = shop.done

    class Book(dramatiq.GenericActor):
        class Meta:  # pyright: ignore[reportIncompatibleVariableOverride]  (as Dramatiq has it)
            broker = shop.broker
            uuid = "order"

        def perform(self, order: str) -> None:
            done.append(order)

    book: Any = Book
    book.send("1")
    shop.work()
    book.send(order="1")
    shop.work()

    assert shop.done == ["1"]


def test_what_dramatiq_tries_again_runs_again(shop: Shop) -> None:
    def flaky() -> str:
        shop.done.append("try")
        if len(shop.done) < 3:
            raise OSError("busy")
        return "done"

    message = shop.actor(flaky, store_results=True).send()
    shop.work()

    assert message.get_result(backend=shop.backend, block=True) == "done"
    assert (len(shop.done), shop.parked) == (3, [])


@pytest.mark.parametrize(
    "options", [{"max_retries": 1}, {"retry_when": _once}], ids=["max_retries", "retry_when"]
)
def test_what_dramatiq_gives_up_is_parked_with_its_arguments(shop: Shop, options: dict[str, Any]) -> None:
    def broken(order: str) -> None:
        shop.done.append(order)
        raise ValueError("no such card")

    shop.actor(broken, **options).send("1")
    shop.work()

    assert (shop.done, shop.parked) == (["1", "1"], [{"actor": "broken", "args": ["1"], "kwargs": {}}])


def test_what_an_actor_throws_is_parked_at_once(shop: Shop) -> None:
    def broken() -> None:
        shop.done.append("try")
        raise ValueError("no such card")

    shop.actor(broken, throws=ValueError).send()
    shop.work()

    assert (len(shop.done), len(shop.parked)) == (1, 1)


def test_what_nobody_can_know_fails_once_and_is_parked(shop: Shop) -> None:
    actor = shop.actor(lambda: shop.done.append("run"), actor_name="book", store_results=True)
    message = actor.message()
    with pytest.raises(KeyboardInterrupt):
        protect("book", history=shop.history, lease=None).handle(message.message_id, _die)

    shop.broker.enqueue(message)
    shop.work()

    assert (shop.done, len(shop.parked)) == ([], 1)
    with pytest.raises(ResultFailure, match="GivenUpError"):
        message.get_result(backend=shop.backend)


def _die() -> None:
    raise KeyboardInterrupt


def test_a_message_whose_history_is_away_is_sent_again_and_counts_as_no_retry() -> None:
    broker: Any = StubBroker()
    broker.emit_after("process_boot")
    broker.add_middleware(guarded(history=f"redis://127.0.0.1:{free_port()}/0"))
    sent: list[tuple[int, Any]] = []

    class Watching(dramatiq.Middleware):
        def after_enqueue(self, broker: Any, message: Any, delay: Any) -> None:
            del broker
            sent.append((message.options.get("retries", 0), delay))

    broker.add_middleware(Watching())
    done: list[str] = []
    actor: Any = dramatiq.actor(broker=broker, actor_name="book", max_retries=0)(lambda: done.append("run"))
    worker = Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    actor.send()
    eventually(lambda: len(sent) >= 2)
    worker.stop()

    assert (sent[0], sent[1][0]) == ((0, None), 0)
    assert sent[1][1] > 0
    assert done == []


def test_actors_from_before_the_guard_and_coroutines_are_guarded_and_those_left_out_are_not() -> None:
    broker: Any = StubBroker()
    done: list[str] = []
    early: Any = dramatiq.actor(broker=broker, actor_name="early")(lambda: done.append("early"))
    broker.add_middleware(guarded(history=MemoryHistory()))
    left: Any = dramatiq.actor(broker=broker, actor_name="left", guarded=False)(lambda: done.append("left"))
    worker = Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    for actor in (early, left):
        message = actor.send()
        broker.join("default")
        broker.enqueue(message)
        broker.join("default")
        worker.join()
    worker.stop()

    assert done == ["early", "left", "left"]


def test_a_plain_call_runs_the_function_and_so_does_one_of_another_actor(shop: Shop) -> None:
    def book(depth: int) -> None:
        shop.done.append(str(depth))
        if depth:
            actor(depth - 1)

    actor = shop.actor(book)
    actor(0)
    actor.send(1)
    shop.work()

    assert shop.done == ["0", "1", "0"]
