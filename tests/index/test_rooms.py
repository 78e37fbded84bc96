"""Rooms: memory that no array uses any more is given to the next, and never to two at once."""

import gc

import numpy as np
import pytest

from eddyline.index import rooms
from eddyline.index.rooms import room


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
