"""The Spark host: one fixed plan in which queries, partitioning and the catalog are data.

The path of a micro-batch, file by file:

    input/control    the catalog's commits and the wall clock as a source of Spark
    input/sources    what streams and tables read
    run/stages       the two Python stages of the plan, which pass blocks to resident processes
    worker/packing   rows are checked, stateless families run, the other rows are routed to buckets
    worker/keeping   a bucket takes a step, and its state is kept as segments in Spark's state store
    worker/bucket    applies commits, table changes and rows to the engine of one bucket
    output/outputs   changes are staged as files
    output/delivery  the staged files of the whole micro-batch are committed

`run/pipeline` puts the plan together and runs it. Catalog changes pass `catalog/pipeline_catalog` (checks them),
`catalog/commits` (an append-only log) and `catalog/following` (each process applies the log to its own definitions).
Python workers are thin: the work is done by resident processes (`worker/resident`), which outlive tasks and keep
operators in memory. `startup` is on the path of Spark's Python processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eddyline.spark.run.pipeline import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> Any:
    """`Pipeline` on first use: resident processes import this package and need no Spark."""
    if name == "Pipeline":
        from eddyline.spark.run.pipeline import Pipeline

        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
