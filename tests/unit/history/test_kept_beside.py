"""The class that gives a store everything beside its entries."""

from typing import Any

import pytest

from history.beside import KeepsBeside


def test_a_verb_that_a_store_lacks_is_missing() -> None:
    class Unfinished(KeepsBeside):
        pass

    store: Any = Unfinished()  # type: ignore[abstract]  # pyright: ignore[reportAbstractUsage]

    with pytest.raises(AttributeError, match="claim"):
        store.claim("book", ["u1"], "worker")
