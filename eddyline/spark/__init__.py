"""The Spark host: one fixed plan in which queries, partitioning and the catalog are data.

The path of a micro-batch, file by file:

    sources    what streams and tables read             control     the catalog's commits and the wall clock as a source
    stages     the two Python stages of the plan        packing     rows checked, stateless families run, rows routed
    bucket     the families of one bucket take a step   keeping     a bucket's state as segments in Spark's state store
    outputs    changes staged as files, then committed  pipeline    puts the plan together and runs it

Catalog changes pass `pipeline_catalog` (checks them), `commits` (an append-only log) and `following` (each process
applies the log to its own definitions).
Python workers are thin: the work is done by `resident` processes, which outlive tasks and keep operators in memory.
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
