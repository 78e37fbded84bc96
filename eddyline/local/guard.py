"""Failure isolation in the in-process host: a failing family is put into quarantine, the others complete the step.

The user gets a warning (`FamilyWarning`) at the end of the call in which a family failed, and an error (`FamilyError`)
for every later use of its queries.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TypeVar

from eddyline.engine.failures import FamilyFailure, starting
from eddyline.engine.family import Family
from eddyline.engine.running_family import RunningFamily
from eddyline.errors import FamilyWarning, described

Result = TypeVar("Result")


class LocalGuard:
    def __init__(self) -> None:
        self._unreported: list[FamilyFailure] = []
        self._interruption: BaseException | None = None

    def start(self, family: Family, build: Callable[[], RunningFamily]) -> RunningFamily | FamilyFailure:
        """Builds a family; the error of a family that cannot start is raised to the caller."""
        with starting(family):
            return build()

    def attempt(self, running: RunningFamily, work: Callable[[], Result]) -> Result | FamilyFailure:
        """Runs `work`. If the user interrupts it, the other families complete the step before `warn` raises it."""
        try:
            return work()
        except BaseException as e:
            if not isinstance(e, Exception):
                self._interruption = e
            failure = FamilyFailure(running.family.name, described(e))
            self._unreported.append(failure)
            return failure

    def refuse(self, failure: FamilyFailure, name: str) -> None:
        """Raises the error of a failed family, and cancels the warning about it."""
        self._unreported = [f for f in self._unreported if f != failure]
        raise failure.refusal(name)

    def warn(self) -> None:
        """Warns of families that failed since the last call. It must be called last: a warning may be raised."""
        if not self._unreported and self._interruption is None:
            return
        failures, self._unreported = self._unreported, []
        interruption, self._interruption = self._interruption, None
        if interruption is not None:
            raise interruption
        if failures:
            more = f" So did {len(failures) - 1} more." if len(failures) > 1 else ""
            hint = f"{more} The others continue; db.resume({failures[0].family!r}) restarts its queries."
            warnings.warn(f"{failures[0]}{hint}", FamilyWarning, stacklevel=_frames_to_caller())


def _frames_to_caller() -> int:
    """The stack level of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("eddyline."):
        level, frame = level + 1, frame.f_back
    return level
