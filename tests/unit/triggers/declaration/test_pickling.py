"""Triggers are pickled by name, like functions, so that other processes can get one."""

import copy
import multiprocessing
import pickle
from typing import Any

import pytest

from history import MemoryHistory, open_history
from triggers import Message, Trigger, trigger


@trigger("orders", name="pickled", history="memory://pickled")
def book(message: Message) -> str | None:
    return message.uuid


def undecorated(message: Message) -> str | None:
    return message.uuid


named_otherwise = trigger("orders", name="named-otherwise", history="memory://pickled")(undecorated)


class Shop:
    @staticmethod
    @trigger("orders", name="of-a-class", history="memory://pickled")
    def book(message: Message) -> str | None:
        return message.uuid


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("one", [book, named_otherwise, Shop.book], ids=lambda one: one.name)
def test_a_trigger_comes_back_as_itself(one: Trigger[..., Any], protocol: int) -> None:
    one.handle(Message(body="x", uuid="u-0"))  # with connections and locks

    assert pickle.loads(pickle.dumps(one, protocol)) is one  # noqa: S301  (our own)
    assert copy.deepcopy(one) is one
    assert copy.copy(one) is one


def test_another_process_has_its_own_of_the_same_name() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        [told] = pool.map(book, [Message(body="x", uuid="u-9")])
        outcome = pool.apply(book.handle, (Message(body="x", uuid="u-9"),))

    assert told == "u-9"
    assert (outcome.executed, outcome.result) == (True, "u-9")


def test_one_that_cannot_be_found_is_refused_and_says_what_to_do() -> None:
    @trigger("orders", name="local", history=MemoryHistory())
    def local(message: Message) -> None: ...

    told = f"trigger local cannot be pickled: it stands nowhere in the module {__name__}; define"
    with pytest.raises(pickle.PicklingError, match=told):
        pickle.dumps(local)


def test_an_adapted_one_is_another() -> None:
    twin = book.adapted(book.settings, lambda service: service)

    assert twin is not book
    assert twin.pipeline() is not book.pipeline()
    with pytest.raises(pickle.PicklingError):
        copy.copy(twin)


def test_memory_is_one_store_for_each_name_in_a_process() -> None:
    again = trigger("orders", name="pickled", history="memory://pickled")(undecorated)
    elsewhere = trigger("orders", name="pickled", history="memory://other")(undecorated)
    message = Message(body="x", uuid="once")

    ran = [one.handle(message).executed for one in (book, again, elsewhere)]
    book.close()

    assert ran == [True, False, True]
    assert not book.handle(message).executed
    assert open_history("memory://pickled") is again.open_store()
    assert open_history("memory://") is open_history("memory://")
    assert open_history("memory://") is not open_history("memory://pickled")
    assert MemoryHistory() is not MemoryHistory()
