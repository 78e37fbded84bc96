"""Rooms: memory that no array uses any more is given to the next, and never to two at once."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

from eddyline.index.runtime import result_memory as rooms
from eddyline.index.runtime.result_memory import room


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_free", [])


def place(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_what_was_let_go_is_given_to_the_next() -> None:
    first = room(1000)
    at = place(first)
    del first
    gc.collect()
    assert place(room(900)) == at


def test_a_view_keeps_its_memory() -> None:
    first = room(1000)
    first[:] = 7
    some = first[10:20].view(np.uint16)
    del first
    gc.collect()
    other = room(1000)
    other[:] = 0
    assert (some.view(np.uint64) == 7).all()


def test_no_two_arrays_share_a_place() -> None:
    held = [room(100) for _ in range(5)]
    assert len({place(a) for a in held}) == 5


def test_much_more_memory_than_asked_for_is_not_given_away() -> None:
    at = place(room(1_000_000))
    gc.collect()
    assert place(room(10)) != at


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "MOST_KEPT", 10_000)
    held = [room(1000) for _ in range(5)]
    del held
    gc.collect()
    assert sum(b.size for b in rooms._free) <= 10_000


class Collecting(list[Any]):
    """A list that collects garbage when it is looked through."""

    def __iter__(self) -> Any:
        gc.collect()
        return super().__iter__()


class Cycle:
    """Only a collection of garbage frees it."""

    def __init__(self) -> None:
        self.array, self.own = room(100), self


def test_memory_may_be_freed_by_a_collection_of_garbage_while_room_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rooms, "_free", Collecting())
    Cycle()
    looking = threading.Thread(target=room, args=(100,), daemon=True)
    looking.start()
    looking.join(60)
    assert not looking.is_alive(), "it waits for a lock of its own"
