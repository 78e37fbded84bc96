"""A family: one shape, its plan, and the table of the queries that share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from eddyline.errors import BindError, did_you_mean
from eddyline.index.ranges.range_search import STRATEGIES
from eddyline.plan.build import plan
from eddyline.plan.nodes import Node
from eddyline.plan.physical import PhysicalNode
from eddyline.plan.physical_planner import physical_plan
from eddyline.sql.bound import BoundQuery, Field, StreamSource, sources
from eddyline.sql.scope import InLists
from eddyline.state.query_table import QueryTable

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "emit": ("changes", "all"),  # all: a `-` for every row that reaches its end
    "snapshot": ("yes", "no"),  # no: no state is kept only for snapshots
    "on_error": ("quarantine", "null"),  # what a pipeline does if a query overflows or its function raises
    "strategy": ("auto", "by row", *STRATEGIES),  # how joins over ranges find the queries a tuple affects
    "split": ("auto", "data", "queries"),  # how a pipeline divides work among its buckets: by rows, or by queries
    "most_changes": (),  # a number: the most changes of a query in one micro-batch of a pipeline
    "most_bytes": (),  # a number: the most bytes of joined rows and changes the family may build in one step
}
MOST_CHANGES = 10_000_000
MOST_BYTES = 1 << 30


@dataclass
class Family:
    number: int
    name: str
    bound: BoundQuery
    options: Mapping[str, str]
    kind: Literal["declared", "implicit", "view"]
    sql: str
    views: frozenset[str]  # the views its text reads, in lower case
    in_lists: InLists = "whole"  # how the long IN lists of its text become parameters
    plan: Node = field(init=False)
    physical: PhysicalNode = field(init=False)
    queries: QueryTable = field(init=False)

    def __post_init__(self) -> None:
        self.plan = plan(self.bound.query)
        self.physical = physical_plan(self.plan, self.emit, self.strategy)
        self.queries = QueryTable(self.bound.params)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.bound.query.fields

    @property
    def emit(self) -> str:
        return self.options.get("emit", "changes")

    @property
    def has_snapshot(self) -> bool:
        return self.options.get("snapshot", "yes") == "yes"

    @property
    def strategy(self) -> str:
        """How joins over ranges find the queries that a tuple affects."""
        return self.options.get("strategy", "auto")

    @property
    def split(self) -> str:
        """How a pipeline divides the work among buckets: by data, by queries, or as suits the first queries."""
        return self.options.get("split", "auto")

    @property
    def on_error(self) -> str | None:
        """What a pipeline does with a query that fails; None: the pipeline's default."""
        return self.options.get("on_error")

    @property
    def most_changes(self) -> int:
        """The most changes that a query may make in one micro-batch of a pipeline."""
        return int(self.options.get("most_changes", MOST_CHANGES))

    @property
    def most_bytes(self) -> int | None:
        """The most bytes of joined rows and changes that it may build in one step; None: the host's limit."""
        return int(self.options["most_bytes"]) if "most_bytes" in self.options else None

    def reads(self) -> set[str]:
        """The streams, tables and views it reads, in lower case."""
        names = (s.stream if isinstance(s, StreamSource) else s.table for s in sources(self.bound.query))
        return {n.lower() for n in names} | self.views


def check_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The options of WITH (…), in a fixed order; unknown ones are refused."""
    for key, value in options.items():
        if key not in OPTIONS:
            raise BindError(f"There is no option {key!r}.", hint=did_you_mean(key, OPTIONS))
        if not OPTIONS[key]:
            if not str(value).isdecimal() or not 0 < int(value) < 2**62:
                raise BindError(f"{key} cannot be {value!r}.", hint="It is a whole number above zero.")
        elif value not in OPTIONS[key]:
            raise BindError(f"{key} cannot be {value!r}.", hint=did_you_mean(str(value), OPTIONS[key]))
    return dict(sorted(options.items()))
