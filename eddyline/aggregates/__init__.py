"""Aggregate functions: one file per function, and the registry of all functions.

A file defines a function for SQL (name, types), for the operators (counters, or which extreme) and for the reference
evaluator (the result over a list of values); see `description.py`. `CONTRIBUTING.md` explains how to add one.
"""

from __future__ import annotations

from eddyline.aggregates.avg import AVG
from eddyline.aggregates.count import COUNT
from eddyline.aggregates.description import AggregateFunction
from eddyline.aggregates.min_max import MAX, MIN
from eddyline.aggregates.sum import SUM

AGGREGATES: dict[str, AggregateFunction] = {f.name: f for f in (COUNT, SUM, AVG, MIN, MAX)}
