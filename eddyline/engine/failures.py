"""Families that failed: each is set apart, so that the others take every step, and its users are told.

A family fails if its operators raise in a step. What they hold may then be half changed, so it is dropped; the catalog
keeps the family and its queries, which get no changes until the family is resumed. Whatever one family raises, each of
the others takes the whole step: this is what makes a push all or nothing.

Users are told by a warning (`FamilyWarning`) at the end of the call in which the family failed, and by an error
(`FamilyError`) whenever they ask for something of its queries.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from eddyline.engine.family import Family
from eddyline.engine.running_family import RunningFamily
from eddyline.errors import Error, FamilyError, FamilyWarning, described

Result = TypeVar("Result")


@dataclass(frozen=True)
class FamilyFailure:
    """A family in quarantine, and what its operators raised."""

    family: str
    error: str

    def __str__(self) -> str:
        return f"Family {self.family!r} failed and is in quarantine: {self.error}"

    def refusal(self, name: str) -> FamilyError:
        """The error for whoever asks for a family or query."""
        whose = "" if name.lower() == self.family.lower() else f"{name!r} is a query of it. "
        return FamilyError(
            f"{str(self).removesuffix('.')}.",
            hint=f"{whose}db.resume({name!r}) lets its queries begin anew from what comes next; or drop it.",
        )


@contextmanager
def starting(family: Family) -> Iterator[None]:
    """A family is built before it is registered: whoever asked for it gets the error, and there is no family."""
    try:
        yield
    except Error:
        raise
    except Exception as e:
        message = f"The queries of family {family.name!r} cannot be started: {described(e)}."
        raise FamilyError(message, hint="Nothing was changed.") from e


@contextmanager
def computing(family: Family) -> Iterator[None]:
    """What was left to be computed until somebody asks, and touches no state: who asked gets the error."""
    try:
        yield
    except Error:
        raise
    except Exception as e:
        raise FamilyError(
            f"What was asked of family {family.name!r} cannot be computed: {described(e)}.",
            hint="Its state is as it was; ask for less (count, affected), or drop the queries that have too many rows.",
        ) from e


class Failures:
    """The families of a connection that failed, by number; they are taken out of `running`."""

    def __init__(self, running: MutableMapping[int, RunningFamily]) -> None:
        self._running = running
        self._failed: dict[int, tuple[Family, FamilyFailure]] = {}
        self._untold: list[FamilyFailure] = []
        self._interruption: BaseException | None = None

    def __iter__(self) -> Iterator[tuple[Family, FamilyFailure]]:
        return iter(list(self._failed.values()))

    def __bool__(self) -> bool:
        return bool(self._failed)

    def of(self, family: Family) -> FamilyFailure | None:
        found = self._failed.get(family.number)
        return None if found is None else found[1]

    def attempt(self, running: RunningFamily, work: Callable[[], Result]) -> Result | FamilyFailure:
        """What one family does in a step; if it raises, the family is set apart.

        If the user interrupts it, the others still take the step before `tell` raises the interruption.
        """
        if running.failure is not None:
            return FamilyFailure(running.family.name, running.failure)
        try:
            return work()
        except BaseException as e:
            if not isinstance(e, Exception):
                self._interruption = e
            return self._set_apart(running, described(e))

    def _set_apart(self, running: RunningFamily, error: str) -> FamilyFailure:
        running.failure = error
        self._running.pop(running.family.number, None)
        failure = FamilyFailure(running.family.name, error)
        self.put(running.family, failure)
        self._untold.append(failure)
        return failure

    def put(self, family: Family, failure: FamilyFailure) -> None:
        self._failed[family.number] = family, failure

    def remove(self, family: Family) -> None:
        """The family was resumed or dropped."""
        self._failed.pop(family.number, None)

    def require_running(self, family: Family, name: str | None = None) -> None:
        failure = self.of(family)
        if failure is not None:
            self._untold = [f for f in self._untold if f != failure]
            raise failure.refusal(name or family.name)

    def tell(self) -> None:
        """Warns of families that failed since it was last called. To be called last: a warning may be an error."""
        untold, self._untold = self._untold, []
        interruption, self._interruption = self._interruption, None
        if interruption is not None:
            raise interruption
        if untold:
            more = f" So did {len(untold) - 1} more." if len(untold) > 1 else ""
            hint = f"{more} The others go on; db.resume({untold[0].family!r}) lets its queries begin anew."
            warnings.warn(f"{untold[0]}{hint}", FamilyWarning, stacklevel=_frames_to_caller())


def _frames_to_caller() -> int:
    """How many frames above its caller the first is that is not of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("eddyline."):
        level, frame = level + 1, frame.f_back
    return level
