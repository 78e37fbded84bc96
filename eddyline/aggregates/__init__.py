"""Aggregate functions: one file each, and the registry of all.

A file says what SQL needs (name, types), what the operators need (counters, or which extreme) and what the reference
evaluator needs (the result from a list of values). `description` explains these; `CONTRIBUTING.md` says how to add one.
"""

from __future__ import annotations

from eddyline.aggregates.avg import AVG
from eddyline.aggregates.count import COUNT
from eddyline.aggregates.description import AggregateFunction
from eddyline.aggregates.min_max import MAX, MIN
from eddyline.aggregates.sum import SUM

AGGREGATES: dict[str, AggregateFunction] = {f.name: f for f in (COUNT, SUM, AVG, MIN, MAX)}
