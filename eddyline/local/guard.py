"""How the in-process host contains failures: the failing family is set apart, the others take the whole step.

Users are told by a warning (`FamilyWarning`) at the end of the call in which a family failed, and by an error
(`FamilyError`) whenever they ask for something of its queries.
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
        self._untold: list[FamilyFailure] = []
        self._interruption: BaseException | None = None

    def start(self, family: Family, build: Callable[[], RunningFamily]) -> RunningFamily | FamilyFailure:
        """A family that cannot start is not created: whoever asked for it gets the error."""
        with starting(family):
            return build()

    def attempt(self, running: RunningFamily, work: Callable[[], Result]) -> Result | FamilyFailure:
        """If the user interrupts the work, the others still take the step before `tell` raises the interruption."""
        try:
            return work()
        except BaseException as e:
            if not isinstance(e, Exception):
                self._interruption = e
            failure = FamilyFailure(running.family.name, described(e))
            self._untold.append(failure)
            return failure

    def refuse(self, failure: FamilyFailure, name: str) -> None:
        """Raises the error for whoever asks for a family or query, who need not be warned as well."""
        self._untold = [f for f in self._untold if f != failure]
        raise failure.refusal(name)

    def tell(self) -> None:
        """Warns of families that failed since it was last called. To be called last: a warning may be an error."""
        if not self._untold and self._interruption is None:
            return
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
