"""One bad query does not stop the others: a family's step, watched.

A query whose function raises, whose arithmetic overflows, or that makes more changes than it may, gets no changes from
this step and is reported, to be put into quarantine. If the family's operators themselves fail, or would build more
than they may (`operators/room.py`), all its queries are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from eddyline.engine.family import Family
from eddyline.engine.running_family import RunningFamily
from eddyline.errors import described
from eddyline.operators.evaluate import Failure, Functions
from eddyline.state.delta import Delta, Ints, empty, query_of


@dataclass(frozen=True)
class Bad:
    """Queries that went wrong in a step, and how."""

    family: int
    queries: Ints
    error: str

    def report(self) -> dict[str, Any]:
        return {"family": self.family, "queries": self.queries.tolist(), "error": self.error}


def started(family: Family, functions: Functions, clock_policy: Literal["min", "max"]) -> RunningFamily | str:
    """A family at work; or why it cannot start, which is its queries' failure and no other's."""
    try:
        return RunningFamily(family, functions, clock_policy, "not kept")
    except OSError:
        raise
    except Exception as e:
        return described(e)


def watched(
    running: RunningFamily, on_error: Literal["quarantine", "null"], run: Callable[[], Delta]
) -> tuple[Delta, list[Bad], bool]:
    """The changes of a step, who went wrong in it, and whether the family can go on."""
    family = running.family
    failures: list[Failure] = []
    running.functions.failures = failures if (family.on_error or on_error) == "quarantine" else None
    try:
        found = run()
    except OSError:
        raise  # the machine's fault and no query's: the micro-batch is done again
    except Exception as e:  # MemoryError too: done again, it would take as much
        return empty(running.root.types, attached=True), [Bad(family.number, all_of(family), described(e))], False
    finally:
        running.functions.failures = None
    bad = [Bad(family.number, all_of(family) if f.queries is None else f.queries, f.message) for f in failures]
    most = family.most_changes
    if len(found) > most:
        ids, counts = np.unique(query_of(found), return_counts=True)
        over = ids[counts > most]
        if len(over):
            error = f"More than {most} changes in one micro-batch ({int(counts.max())})."
            bad.append(Bad(family.number, over, error))
    if bad:
        out = np.concatenate([b.queries for b in bad])
        found = found.take(~np.isin(query_of(found), out))
    return found, bad, True


def all_of(family: Family) -> Ints:
    """The ids of its queries that stand."""
    rows = family.queries.rows()
    return rows.ids_at(rows.live())
