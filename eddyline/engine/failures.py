"""Families that failed, and the errors that their users get.

A family fails if its operators raise in a step. Their state may then be inconsistent, so it is dropped; the catalog
keeps the family and its queries, which get no changes until the family is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from eddyline.engine.family import Family
from eddyline.errors import Error, FamilyError, described


@dataclass(frozen=True)
class FamilyFailure:
    """A family in quarantine, and the error that its operators raised."""

    family: str
    error: str

    def __str__(self) -> str:
        return f"Family {self.family!r} failed and is in quarantine: {self.error}"

    def refusal(self, name: str) -> FamilyError:
        """The error for a caller that names this family or one of its queries."""
        whose = "" if name.lower() == self.family.lower() else f"{name!r} is a query of it. "
        return FamilyError(
            f"{str(self).removesuffix('.')}.",
            hint=f"{whose}db.resume({name!r}) restarts its queries with the tuples that arrive next; or drop it.",
        )


def starting(family: Family) -> AbstractContextManager[None]:
    """Builds a family before it is registered: the caller gets the error, and no family is created."""
    return _reporting(f"The queries of family {family.name!r} cannot be started", "Nothing was changed.")


def computing(family: Family) -> AbstractContextManager[None]:
    """Computes deferred results, which changes no state: the caller gets the error, and the family does not fail."""
    hint = "Its state is as it was; ask for less (count, affected), or drop the queries that have too many rows."
    return _reporting(f"What was asked of family {family.name!r} cannot be computed", hint)


@contextmanager
def _reporting(what: str, hint: str) -> Iterator[None]:
    """Raises any error as one that Eddyline raises on purpose."""
    try:
        yield
    except Error:
        raise
    except Exception as e:
        raise FamilyError(f"{what}: {described(e)}.", hint=hint) from e
