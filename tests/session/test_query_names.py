"""Names against a dict from name to owner."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.session.query_names import FREE, RECENT, QueryNames

Owner = tuple[int, int]


def check(names: QueryNames, plain: dict[str, Owner], pool: list[str], note: str = "") -> None:
    assert len(names) == len(plain), note
    assert [names.owner(n) for n in pool] == [plain.get(n) for n in pool], note
    family, query = names.owners(pa.array(pool, pa.string()))
    assert family.tolist() == [plain.get(n, (FREE, 0))[0] for n in pool], note
    used = [i for i, n in enumerate(pool) if n in plain]
    assert query[used].tolist() == [plain[pool[i]][1] for i in used], note


@pytest.mark.parametrize("seed", range(6))
def test_owners_are_those_of_a_dict_while_names_are_taken_and_given_up(seed: int) -> None:
    rnd = Random(seed)
    names, plain = QueryNames(), dict[str, Owner]()
    pool = [f"q{i}" for i in range(150)] + ["", "é", "Q1", "a b", "名"]
    for step in range(150):
        free = [n for n in pool if n not in plain]
        kind = rnd.choice(["take one", "take one", "take", "release one", "release", "look"])
        if kind == "take one" and free:
            name = rnd.choice(free)
            plain[name] = (rnd.randint(1, 5), step)
            names.take_one(name, *plain[name])
        elif kind == "take":
            new = rnd.sample(free, min(len(free), rnd.choice([0, 1, 5, 40])))
            families = [rnd.randint(1, 5) for _ in new]
            plain |= {n: (f, i) for i, (n, f) in enumerate(zip(new, families, strict=True))}
            names.take(pa.array(new, pa.string()), np.array(families, np.int64), np.arange(len(new)))
        elif kind == "release one" and plain:
            name = rnd.choice(list(plain))
            del plain[name]
            names.release_one(name)
        elif kind == "release":
            gone = rnd.sample(list(plain), rnd.choice([0, min(1, len(plain)), len(plain) // 2, len(plain)]))
            plain = {n: o for n, o in plain.items() if n not in gone}
            names.release(pa.array(gone, pa.string()))
        if rnd.random() < 0.3:
            check(names, plain, rnd.sample(pool, 40), f"seed {seed}")
    check(names, plain, pool, f"seed {seed}")


def test_released_names_are_compacted_away_and_the_others_stay() -> None:
    names = QueryNames()
    names.take(pa.array([f"kept{i}" for i in range(500)]), 7, np.arange(500))
    sizes = []
    for r in range(12):
        fresh = pa.array([f"name {r} {i}" for i in range(3000)])
        names.take(fresh, 1, np.arange(3000))
        names.release(fresh)
        sizes.append(names.nbytes)
    assert max(sizes[2:]) <= 2 * max(sizes[:2])
    check(names, {f"kept{i}": (7, i) for i in range(500)}, [f"kept{i}" for i in range(500)] + ["name 0 0", "name 11 5"])


def test_names_taken_one_by_one_are_found_before_and_after_they_join_the_table() -> None:
    names, plain = QueryNames(), dict[str, Owner]()
    for i in range(RECENT + 10):
        plain[f"q{i}"] = (1 + i % 3, i)
        names.take_one(f"q{i}", *plain[f"q{i}"])
    check(names, plain, [f"q{i}" for i in range(RECENT + 20)])


def test_a_name_given_up_can_be_taken_by_another_family() -> None:
    names = QueryNames()
    names.take(pa.array(["a", "b"]), 1, np.array([0, 1]))
    names.release_one("a")
    names.take_one("a", 2, 9)
    check(names, {"a": (2, 9), "b": (1, 1)}, ["a", "b"])
    names.release_one("a")
    assert names.owner("a") is None


def test_without_names_none_has_an_owner() -> None:
    check(QueryNames(), {}, ["a", ""])
