"""Retention: which tuples of a stream the windows of a family still need.

The widest window is known until queries are added or dropped.
"""

from __future__ import annotations

import pyarrow as pa

from eddyline.engine.family import Family
from eddyline.operators.base import Operator
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.rows_window import CountWindow
from eddyline.plan.expressions import params_of
from eddyline.plan.nodes import Node, Stream
from eddyline.state.delta import MAX, MIN
from eddyline.state.query_table import QueryRows


class Retention:
    def __init__(self, family: Family, root: Operator, functions: Functions) -> None:
        self.family, self.root, self.functions = family, root, functions
        self._reach: dict[str, tuple[tuple[int, int], int]] = {}  # by stream: (version and live queries, reach)

    def reach(self, stream: str) -> int:
        """The length of the widest time window on a stream, in microseconds."""
        queries = self.family.queries.rows()
        known, widest = self._reach.get(stream, (None, 0))
        version = queries.version, self.family.queries.live  # the version alone does not change with drops
        if known != version:
            widest = self._widest(stream, queries)
            self._reach[stream] = version, widest
        return widest

    def _widest(self, stream: str, queries: QueryRows) -> int:
        widest = 0
        for node in _stream_nodes(self.family.plan, stream):
            if node.window.kind == "rows":
                continue  # `CountWindow.needed_from`
            if node.window.size is None:
                return MAX
            live = queries.live()
            size = node.window.size
            sizes = evaluate(size, (), queries.params_at(params_of(size), live), len(live), self.functions)
            widths = sizes.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            widest = max(widest, int(widths.max(initial=0)))
        return widest

    def needed_from(self, stream: str, clock: int) -> int:
        """The least event time of the tuples that windows need at a clock."""
        if clock == MIN:
            return MIN
        queries, before = self.family.queries.rows(), max(MIN, clock - self.reach(stream))
        counting = (o for o in self.root.walk() if isinstance(o, CountWindow) and o.stream == stream)
        return min([before, *(o.needed_from(queries, self.functions, clock) for o in counting)])


def _stream_nodes(node: Node, stream: str) -> list[Stream]:
    own = [node] if isinstance(node, Stream) and node.source.stream.lower() == stream else []
    return own + [n for i in node.inputs for n in _stream_nodes(i, stream)]
