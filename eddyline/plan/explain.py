"""EXPLAIN of a logical plan: stable text, one operator per line, with the update pattern of its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eddyline.plan import nodes
from eddyline.plan.expressions import text
from eddyline.plan.nodes import Node
from eddyline.plan.patterns import label
from eddyline.sql.bound import Aggregate, Expr, Output, StreamSource, TableSource


def explain(node: Node, note: Callable[[Node], str] = lambda _: "") -> str:
    """The plan under `node`; `note` may add a remark to each line."""
    lines: list[tuple[str, str, str]] = []

    def visit(n: Node, depth: int) -> None:
        lines.append(("  " * depth + describe(n), label(n).name, note(n)))
        for i in n.inputs:
            visit(i, depth + 1)

    visit(node, 0)
    width = max(len(line) for line, _, _ in lines)
    return "\n".join(f"{line:<{width}}  {pattern:<9}  {remark}".rstrip() for line, pattern, remark in lines)


def describe(node: Node) -> str:
    match node:
        case nodes.Stream():
            return "stream " + stream_text(node.source)
        case nodes.Table():
            return "table " + table_text(node.source)
        case nodes.Select():
            return f"select {text(node.condition)}"
        case nodes.Project():
            return "project " + outputs_text(node.outputs)
        case nodes.Join():
            return f"join of {len(node.inputs)}" + on_text(node.condition)
        case nodes.TableJoin():
            kind = "table join" if node.kind == "retroactive" else "non-retroactive table join"
            return kind + on_text(node.condition)
        case nodes.Union():
            return f"union of {len(node.inputs)}"
        case nodes.Intersect():
            return "intersect"
        case nodes.Negation():
            return "negation"
        case nodes.Distinct():
            return "distinct"
        case nodes.GroupBy():
            return group_text(node.keys, node.aggregates)


def group_text(keys: Sequence[Expr], aggregates: Sequence[Aggregate]) -> str:
    by = f" by {', '.join(text(k) for k in keys)}" if keys else ""
    return f"group{by}: " + ", ".join(map(aggregate_text, aggregates))


def aggregate_text(aggregate: Aggregate) -> str:
    return f"{aggregate.function}({text(aggregate.argument) if aggregate.argument else '*'})"


def stream_text(source: StreamSource) -> str:
    kind, size = source.window.kind, "" if source.window.size is None else f" {text(source.window.size)}"
    return f"{source.stream}{_alias(source.stream, source.alias)} [{kind.upper()}{size}]"


def table_text(source: TableSource) -> str:
    return source.table + _alias(source.table, source.alias)


def _alias(name: str, alias: str) -> str:
    return "" if alias == name else f" AS {alias}"


def outputs_text(outputs: Sequence[Output]) -> str:
    given = [(o.name, text(o.expr)) for o in outputs]
    return ", ".join(name if name == expression else f"{expression} AS {name}" for name, expression in given)


def on_text(condition: Expr | None) -> str:
    return "" if condition is None else f" on {text(condition)}"
