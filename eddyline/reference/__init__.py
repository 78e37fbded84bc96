"""The reference evaluator: defines what a query means in the fewest lines. Tests compare the engine with it.

values      canonical rows, times in microseconds
scalar      the value of an expression for one row
relational  the answer of a query over given contents of its sources
evaluator   streams, tables and registered queries: the answer at any instant, and its changes
retractions invariants of a log of changes
"""

from eddyline.reference.evaluator import Reference, normalise
from eddyline.reference.relational import evaluate
from eddyline.reference.retractions import Change, fold_by_signs, unmatched
from eddyline.reference.scalar import value
from eddyline.reference.values import MAX, MIN, canonical, micros

__all__ = [
    "MAX",
    "MIN",
    "Change",
    "Reference",
    "canonical",
    "evaluate",
    "fold_by_signs",
    "micros",
    "normalise",
    "unmatched",
    "value",
]
