"""EXPLAIN of a physical plan: one operator per line, with whether its output is shared by all queries or per query.

Lines that begin with | belong to the operator above them: where rows are kept, and how the changes of each input of a
join find their partners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from eddyline.plan import physical
from eddyline.plan.explain import aggregate_text, group_text, on_text, outputs_text, stream_text, table_text
from eddyline.plan.expressions import all_of, text
from eddyline.plan.physical import Buffer, PhysicalNode
from eddyline.sql.bound import Field


def explain_physical(root: PhysicalNode, params: Sequence[Field] = ()) -> str:
    """The plan under `root`; `params` are the family's parameters."""
    lines: list[tuple[str, str]] = []

    def visit(node: PhysicalNode, depth: int) -> None:
        lines.append(("  " * depth + describe(node, params), "per query" if node.attached else "shared"))
        lines.extend(("  " * depth + "  | " + line, "") for line in _details(node))
        for i in node.inputs:
            visit(i, depth + 1)

    visit(root, 0)
    width = max(len(line) for line, scope in lines if scope)
    return "\n".join(f"{line:<{width}}  {scope}".rstrip() for line, scope in lines)


def describe(node: PhysicalNode, params: Sequence[Field]) -> str:
    match node:
        case physical.StreamScan():
            return "stream scan " + stream_text(node.source)
        case physical.TableScan():
            return "table scan " + table_text(node.source)
        case physical.CountWindow():
            return f"count window of {text(node.size)} rows"
        case physical.Filter():
            return f"filter {text(node.condition)}"
        case physical.Attach():
            return "attach to all queries" if node.condition is None else f"grouped filter {text(node.condition)}"
        case physical.Project():
            return "project " + outputs_text(node.outputs)
        case physical.UnionAll():
            return "union all"
        case physical.StemJoin():
            return "stem join" + on_text(node.condition)
        case physical.SetOperation():
            return f"{node.kind} by counting"
        case physical.DuplicateElimination():
            return "distinct by latest ends, because its input never retracts"
        case physical.GroupBy():
            folded = ", folded by ranges without joined rows" if node.range_arguments is not None else ""
            return group_text(node.keys, node.aggregates) + folded
        case physical.Cluster():
            names = [f":{params[p].name}" if p < len(params) else f":{p}" for p in node.params]
            where = "" if node.where is None else f", given to those with {text(node.where)}"
            return f"one copy per class of queries by ({', '.join(names)}){where}"
        case physical.Expirations():
            return "expirations"
    raise TypeError(f"{type(node).__name__} has no text")


def _details(node: PhysicalNode) -> Iterator[str]:
    """Where rows are kept, and how the changes of a join find their partners."""
    if isinstance(node, physical.StemJoin):
        for i in node.stored:
            source = node.streams[i]
            if source is not None:
                yield f"rows of input {i + 1} are in the log of {source.scan.source.stream}{on_text(source.condition)}"
            counted = node.counted[i]
            if counted is not None:
                where = on_text(all_of(c for c in (counted.condition, counted.per_query) if c is not None))
                yield f"rows of input {i + 1} are in the log of {counted.window.scan.source.stream}{where}"
            table = node.tables[i]
            if table is not None:
                yield f"rows of input {i + 1} are in the table {table.scan.source.table}{on_text(table.condition)}"
        elsewhere = [i for i in node.stored if not (node.streams[i] or node.counted[i] or node.tables[i])]
        yield from _kept({f"input {i + 1}": node.buffers[i] for i in elsewhere})
        yield from _probes(node)
    if isinstance(node, physical.GroupBy):
        yield from _kept({aggregate_text(a): b for a, b in zip(node.aggregates, node.buffers, strict=True) if b})
        if node.ends == "in log":
            streams = [n.source.stream for n in node.input.inputs if isinstance(n, physical.StreamScan)]
            yield f"rows leave windows as the log of {', '.join(streams)} has them"


def _kept(buffers: Mapping[str, Buffer]) -> Iterator[str]:
    for buffer in dict.fromkeys(buffers.values()):
        owners = ", ".join(owner for owner, b in buffers.items() if b == buffer)
        yield f"rows of {owners} are kept in {buffer.kind}, {buffer.eviction} ones are evicted"


def _probes(join: physical.StemJoin) -> Iterator[str]:
    """How the changes of each input find their partners."""
    for i, (order, first, ranges) in enumerate(zip(join.probes, join.filters, join.ranges, strict=True)):
        name = f"input {i + 1}"
        if i == join.frozen_table:
            yield f"{name} is probed and never probes"
            continue
        if ranges is not None:
            how = join.strategy or "estimated for each tuple"
            yield f"{name} meets groups of ranges of {', '.join(a.text for a in ranges.axes)} ({how})"
        if first is not None:
            otherwise = "otherwise " if ranges is not None else ""
            when = "always" if first.always else "where that is cheaper"
            if first.calls_functions:
                where = "before or after it probes, whichever is cheaper"
                if len(order) > 1:
                    where = "before, between or after its probes, whichever is cheapest"
                yield f"{name} passes {text(first.condition)} {where}"
            else:
                yield f"{name} {otherwise}passes {text(first.condition)} first, {when}"
        yield f"{name} probes " + ", then ".join(_probe(join, p) for p in order)


def _probe(join: physical.StemJoin, step: physical.ProbeStep) -> str:
    key = join.keys[step.input][step.key]
    pairs = [f"{text(a)} = {text(b)}" for a, b in zip(key.exprs, step.exprs, strict=True)]
    by = " by " + ", ".join([*pairs, *(["query"] if key.with_query else [])]) if pairs or key.with_query else ""
    return f"{step.input + 1}{by}{on_text(step.conditions)}"
