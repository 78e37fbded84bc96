"""Failure isolation in buckets and packers: one failing query does not stop the others.

A query fails if its function raises, its arithmetic overflows, or it makes more changes than its limit. It gets no
changes from this step and is reported, so that the driver puts it into quarantine. If the operators of a family fail,
or would exceed their memory limit (`operators/room.py`), all queries of the family fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from eddyline.arrays import Ints
from eddyline.engine.failures import FamilyFailure
from eddyline.engine.family import Family
from eddyline.engine.running_family import RunningFamily
from eddyline.errors import described
from eddyline.operators.evaluate import Failure
from eddyline.state.delta import Delta, query_of

Result = TypeVar("Result")


@dataclass(frozen=True)
class FailedQueries:
    """Queries that failed in a step, and how."""

    family: int
    queries: Ints
    error: str

    def report(self) -> dict[str, Any]:
        return {"family": self.family, "queries": self.queries.tolist(), "error": self.error}


class WorkerGuard:
    def __init__(self, on_error: Literal["quarantine", "null"]) -> None:
        """`on_error`: how a failing query is treated if its family has no option `on_error`."""
        self.on_error = on_error
        self.failed_queries: list[FailedQueries] = []  # since the last call of `take`
        self.failed_families: list[int] = []  # families whose operators failed, since the last call of `take`

    def take(self) -> tuple[list[FailedQueries], list[int]]:
        """The queries and the families that failed since this was last called."""
        taken = self.failed_queries, self.failed_families
        self.failed_queries, self.failed_families = [], []
        return taken

    def start(self, family: Family, build: Callable[[], RunningFamily]) -> RunningFamily | FamilyFailure:
        try:
            return build()
        except OSError:
            raise  # a fault of the machine, not of a query: Spark retries the micro-batch
        except Exception as e:
            return self._fail(family, described(e))

    def attempt(self, running: RunningFamily, work: Callable[[], Result]) -> Result | FamilyFailure:
        """Runs `work`; returns its changes without those of queries that failed."""
        family = running.family
        failures: list[Failure] = []
        running.functions.failures = failures if (family.on_error or self.on_error) == "quarantine" else None
        try:
            result = work()
        except OSError:
            raise
        except Exception as e:  # MemoryError too: a retry would need as much memory
            return self._fail(family, described(e))
        finally:
            running.functions.failures = None
        failed = [(live_queries(family) if f.queries is None else f.queries, f.message) for f in failures]
        if isinstance(result, Delta):
            failed += _with_too_many_changes(family, result)
        self.failed_queries += [FailedQueries(family.number, ids, error) for ids, error in failed]
        if failed and isinstance(result, Delta):
            out = np.concatenate([ids for ids, _ in failed])
            return result.take(~np.isin(query_of(result), out))  # type: ignore[return-value]
        return result

    def _fail(self, family: Family, error: str) -> FamilyFailure:
        self.failed_families.append(family.number)
        queries = live_queries(family)
        if len(queries):
            self.failed_queries.append(FailedQueries(family.number, queries, error))
        return FamilyFailure(family.name, error)


def _with_too_many_changes(family: Family, changes: Delta) -> list[tuple[Ints, str]]:
    most = family.most_changes
    if len(changes) <= most:
        return []
    ids, counts = np.unique(query_of(changes), return_counts=True)
    over = ids[counts > most]
    error = f"More than {most} changes in one micro-batch ({int(counts.max())})."
    return [(over, error)] if len(over) else []


def live_queries(family: Family) -> Ints:
    """The ids of the live queries of a family."""
    rows = family.queries.rows()
    return rows.ids_at(rows.live())
