"""Result memory: a buffer that no array refers to is reused by the next, and never leased twice at once."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

from eddyline.index.runtime import result_memory
from eddyline.index.runtime.result_memory import result_words


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_memory, "_free", [])
    monkeypatch.setattr(result_memory, "LEAST_KEPT", 1)


def place(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_a_freed_buffer_is_reused() -> None:
    first = result_words(1000)
    at = place(first)
    del first
    gc.collect()
    assert place(result_words(900)) == at


def test_a_view_keeps_its_memory() -> None:
    first = result_words(1000)
    first[:] = 7
    some = first[10:20].view(np.uint16)
    del first
    gc.collect()
    other = result_words(1000)
    other[:] = 0
    assert (some.view(np.uint64) == 7).all()


def test_no_two_arrays_share_a_place() -> None:
    held = [result_words(100) for _ in range(5)]
    assert len({place(a) for a in held}) == 5


def test_much_more_memory_than_asked_for_is_not_given_away() -> None:
    at = place(result_words(1_000_000))
    gc.collect()
    assert place(result_words(10)) != at


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_memory, "MOST_KEPT", 10_000)
    held = [result_words(1000) for _ in range(5)]
    del held
    gc.collect()
    assert sum(b.size for b in result_memory._free) <= 10_000


def test_small_buffers_are_left_to_the_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_memory, "LEAST_KEPT", 8_000)
    held = [result_words(999), result_words(1000)]
    del held
    gc.collect()
    assert [b.size for b in result_memory._free] == [8_000]


class Collecting(list[Any]):
    """A list that collects garbage when it is looked through."""

    def __iter__(self) -> Any:
        gc.collect()
        return super().__iter__()


class Cycle:
    """Only a collection of garbage frees it."""

    def __init__(self) -> None:
        self.array, self.own = result_words(100), self


def test_a_garbage_collection_may_free_memory_while_a_buffer_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_memory, "_free", Collecting())
    Cycle()
    looking = threading.Thread(target=result_words, args=(100,), daemon=True)
    looking.start()
    looking.join(60)
    assert not looking.is_alive(), "it waits for a lock of its own"
