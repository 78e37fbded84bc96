"""The options of joins in WITH (…): `join`, `index_entries` and `order`. (Document 2, sections 3 and 5.)

`order` names all inputs of the join of streams and subqueries in FROM: tuples of each probe the others in this order.
What would have no effect is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.errors import BindError
from eddyline.plan import physical
from eddyline.plan.equality_classes import is_equality
from eddyline.plan.expressions import conjuncts
from eddyline.plan.physical import PhysicalNode
from eddyline.sql.bound import Query, SelectBlock, StreamSource, TableSource, blocks, sources


def names_of(order: str) -> list[str]:
    """The names in a value such as 'a, b, c', in lower case."""
    names = [name.strip().lower() for name in order.split(",")]
    if "" in names:
        raise BindError(f"order cannot be {order!r}.", hint="It lists the inputs of a join, such as order = 'a, b, c'.")
    return names


def forced_order(query: Query, order: str) -> tuple[int, ...]:
    """The positions of the inputs that an order names, as the join has them."""
    names = names_of(order)
    joins = [joined for block in blocks(query) if len(joined := _joined(block)) > 1]
    if len(joins) != 1 or len(joins[0]) < 3:
        has = "none" if not joins else f"{len(joins)} joins" if len(joins) > 1 else "a join of two inputs"
        raise BindError(
            "order has no effect on this query.",
            hint=f"It needs one join of at least three streams or subqueries; this query has {has}. Leave it out.",
        )
    (inputs,) = joins
    if sorted(names) != sorted(inputs):
        unknown = next((n for n in names if n not in inputs), None)
        missing = next((n for n in inputs if n not in names), None)
        what = (
            f"{unknown!r} is not an input of the join"
            if unknown is not None
            else f"{missing!r} is missing"
            if missing is not None
            else "an input is named twice"
        )
        raise BindError(
            f"order cannot be {order!r}: {what}.",
            hint=f"Name each input once; tables are joined after them. Its inputs are {', '.join(inputs)}.",
        )
    return tuple(inputs.index(n) for n in names)


def _joined(block: SelectBlock) -> list[str]:
    """The inputs that one join has, by alias: all but tables, which are joined after streams."""
    has_stream = any(isinstance(s, StreamSource) for s in sources(block))
    return [s.alias.lower() for s in block.sources if not (has_stream and isinstance(s, TableSource))]


def refuse_join_options(options: Mapping[str, str], root: PhysicalNode) -> None:
    """Refuses options of joins that have no effect on a plan."""
    joins = [n for n in root.walk() if isinstance(n, physical.StemJoin)]
    if "join" in options and not joins:
        raise BindError("join has no effect on a query without a join.", hint="Leave it out.")
    keyed = any(is_equality(c) for j in joins for c in conjuncts(j.predicate))
    if options.get("join") in ("hash", "hybrid") and not keyed:
        raise BindError(
            f"join = {options['join']!r} has no effect: no condition makes columns of two inputs equal.",
            hint="Leave it out, or add an equality such as a.k = b.k.",
        )
    if ("index_entries" in options) != (options.get("join") == "hybrid"):
        if "index_entries" in options:
            raise BindError(
                "index_entries has no effect on a join that is not hybrid.",
                hint="Add join = 'hybrid', or leave it out.",
            )
        raise BindError(
            "join = 'hybrid' needs the most entries that its indexes may have.",
            hint="Add index_entries, such as WITH (join = 'hybrid', index_entries = 100000).",
        )
    if options.get("join") == "hybrid" and not any(s is not None for j in joins for s in j.streams):
        raise BindError(
            "join = 'hybrid' has no effect: no input of the join is a stream.",
            hint="Indexes are chosen for streams; leave it out, or use join = 'nested loop'.",
        )
