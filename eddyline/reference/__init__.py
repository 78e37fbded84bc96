"""The naive evaluator: what a query means, in the fewest lines; the oracle of the tests, never used by users.

values      canonical rows, times in microseconds
scalar      the value of an expression for one row
relational  a query over given contents of its sources, once
evaluator   streams, tables and standing queries: the answer at any instant, and its changes
"""

from eddyline.reference.evaluator import Reference, normalise
from eddyline.reference.relational import evaluate
from eddyline.reference.scalar import value
from eddyline.reference.values import MAX, MIN, canonical, micros

__all__ = ["MAX", "MIN", "Reference", "canonical", "evaluate", "micros", "normalise", "value"]
