"""Random scenarios under lazy evaluation and expiration: the classes of `test_oracle.py` with random options."""

from __future__ import annotations

from random import Random

from tests.oracle import queries
from tests.oracle.deep import deep_query
from tests.oracle.scenario import Pace, check, in_long_steps, scenario

# Windows of the random queries are a few seconds long: from 1% of one to several of them.
EVALUATE = [None, 0, 30, 500, 1_500, 4_000, 4_000, 10_000, 20_000]
EXPIRE = [None, None, 0, 100, 2_000, 30_000]
KINDS = [*queries.CLASSES, "deep", "mixed", "families", "clock max"]


def play(kind: str, seed: int) -> int:
    """How many (query, input) cases were compared."""
    rnd = Random(f"lazy {kind}{seed}")
    make = deep_query if kind == "deep" else queries.CLASSES.get(kind, queries.query)
    texts = [] if kind == "families" else [make(rnd) for _ in range(rnd.randint(1, 2 if kind != "mixed" else 4))]
    s = scenario(
        rnd,
        texts,
        rows=rnd.randint(6, 36),
        families=kind == "families",
        clock="max" if kind == "clock max" else "min",
    )
    if kind == "retracting join" and rnd.random() < 0.5:
        s = in_long_steps(rnd, s)
    s.emit_all = rnd.random() < 0.3
    s.pace = Pace(rnd.choice(EVALUATE), rnd.choice(EXPIRE))
    try:
        return check(rnd, s, snapshots=rnd.choice([0, 0.15]), restores=rnd.choice([0, 0.1]))
    except BaseException as e:
        e.add_note(f"lazy {kind!r}, seed {seed}\n{s}")
        raise
