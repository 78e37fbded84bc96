"""A family: one shape, its plan, and the table of the queries that share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from eddyline.engine.join_options import forced_order, names_of, refuse_join_options
from eddyline.errors import BindError, did_you_mean
from eddyline.index.ranges.range_search import STRATEGIES
from eddyline.plan import physical
from eddyline.plan.build import build
from eddyline.plan.nodes import Node
from eddyline.plan.physical import JoinMethod, PhysicalNode
from eddyline.plan.physical_planner import physical_plan
from eddyline.plan.rules import LATEST, Generation, optimize
from eddyline.plan.statistics import Statistics
from eddyline.sql.bound import BoundQuery, Field, StreamSource, sources
from eddyline.sql.cursor import short
from eddyline.sql.functions import UNITS, unit_of
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
    "evaluate": (),  # a length of event time: how often collected tuples are evaluated, instead of when they arrive
    "expire": (),  # a length of event time: how often expired rows are dropped, instead of when buffers are rearranged
    "join": ("hash", "nested loop", "hybrid"),  # whether joins look partners up by key, or scan windows
    "index_entries": (),  # a number: the most index entries of a hybrid join
    "order": (),  # names of inputs: the order in which tuples probe them, instead of one that follows the data
}
LENGTHS = ("evaluate", "expire")
MANY_QUERIES = 64.0  # of a declared family, for the cost model; a text is planned for itself
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
    rules: Generation = LATEST  # the rewrite rules that its plan is made by, for as long as it exists
    plan: Node = field(init=False)
    rewrites: tuple[str, ...] = field(init=False)  # those that changed the plan
    physical: PhysicalNode = field(init=False)
    queries: QueryTable = field(init=False)

    def __post_init__(self) -> None:
        rewritten = optimize(
            build(self.bound.query),
            Statistics(queries=MANY_QUERIES if self.kind == "declared" and self.bound.params else 1.0),
            generation=self.rules,
            joins="as written" if "order" in self.options or self.join_method == "hybrid" else "free",
            lookup="scan" if self.join_method == "nested loop" else "key",
        )
        self.plan, self.rewrites = rewritten.plan, rewritten.rewrites
        order = forced_order(self.bound.query, self.options["order"]) if "order" in self.options else None
        options = self.emit, self.strategy, self.join_method, order
        self.physical = physical_plan(self.plan, *options, many_queries=self.kind == "declared")
        self.queries = QueryTable(self.bound.params)
        self._refuse_options_without_effect()

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
    def join_method(self) -> JoinMethod:
        """How its joins find partners."""
        return next(m for m in get_args(JoinMethod) if m == self.options.get("join", "hash"))

    @property
    def index_entries(self) -> int:
        """The most index entries of each of its joins, if they are hybrid."""
        return int(self.options.get("index_entries", 0))

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

    @property
    def evaluate(self) -> int:
        """How much event time passes between evaluations, in microseconds; 0: tuples are evaluated when they arrive."""
        return _microseconds(self.options.get("evaluate", "")) or 0

    @property
    def expire(self) -> int | None:
        """How much event time passes between expirations, at least that between evaluations; None: state buffers
        decide."""
        asked = _microseconds(self.options.get("expire", ""))
        return None if asked is None else max(asked, self.evaluate)

    @property
    def keeps_tuples(self) -> bool:
        """Whether it has state beside that of its operators: tuples or rows that wait."""
        return self.emit == "all" or self.evaluate > 0

    def _refuse_options_without_effect(self) -> None:
        if "evaluate" in self.options and not self.physical.reads_streams:
            raise BindError(
                "evaluate has no effect on a query that reads no stream.",
                hint="Leave it out: tables have no event time, and their changes are evaluated at once.",
            )
        keeping = (
            physical.StemJoin,
            physical.GroupBy,
            physical.SetOperation,
            physical.DuplicateElimination,
            physical.CountWindow,
        )
        if "expire" in self.options and not any(isinstance(n, keeping) for n in self.physical.walk()):
            raise BindError(
                "expire has no effect on a query that keeps no rows.",
                hint="Leave it out: selections and projections have no state from which rows could be dropped.",
            )
        refuse_join_options(self.options, self.physical)

    def reads(self) -> set[str]:
        """The streams, tables and views it reads, in lower case."""
        names = (s.stream if isinstance(s, StreamSource) else s.table for s in sources(self.bound.query))
        return {n.lower() for n in names} | self.views


def check_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The options of WITH (…), in a fixed order; unknown ones are refused."""
    for key, value in options.items():
        if key not in OPTIONS:
            raise BindError(f"There is no option {key!r}.", hint=did_you_mean(key, OPTIONS))
        if key in LENGTHS:
            if _microseconds(str(value)) is None:
                raise BindError(
                    f"{key} cannot be {short(str(value))!r}.",
                    hint=f"It is a length of event time: {key} = '5 seconds', '250 milliseconds', '0 seconds'.",
                )
        elif key == "order":
            names_of(str(value))
        elif not OPTIONS[key]:
            if not str(value).isdecimal() or not 0 < int(value) < 2**62:
                raise BindError(f"{key} cannot be {value!r}.", hint="It is a whole number above zero.")
        elif value not in OPTIONS[key]:
            raise BindError(f"{key} cannot be {value!r}.", hint=did_you_mean(str(value), OPTIONS[key]))
    return {k: _normal_text(k, str(v)) for k, v in sorted(options.items())}


def _normal_text(key: str, value: str) -> str:
    """The value of an option, so that equal values have equal texts."""
    if key in LENGTHS:
        return length_text(_microseconds(value) or 0)
    return ", ".join(names_of(value)) if key == "order" else value


def length_text(micros: int) -> str:
    """A length of time in the largest unit that has no fraction: equal lengths have equal texts."""
    fitting = (
        name for name, unit in sorted(UNITS.items(), key=lambda u: -u[1]) if micros % unit == 0 and micros >= unit
    )
    name = next(fitting, "SECOND")
    number = micros // UNITS[name]
    return f"{number} {name.lower()}{'' if number == 1 else 's'}"


def _microseconds(text: str) -> int | None:
    """The microseconds of a text such as '5 seconds'; None if it is none."""
    number, _, word = text.strip().partition(" ")
    unit = unit_of(word.strip())
    if unit is None:
        return None
    try:
        length = float(number) * unit
    except ValueError:
        return None
    return round(length) if 0 <= length < 2**62 else None
