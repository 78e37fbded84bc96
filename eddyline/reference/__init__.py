"""The naive evaluator: what a query means, in the fewest lines; the oracle of the tests, never used by users.

values      canonical rows, times in microseconds
scalar      the value of an expression for one row
relational  a query over given contents of its sources, once
evaluator   streams, tables and standing queries: the answer at any instant, and its changes
retractions what a log of changes promises beside its fold
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
