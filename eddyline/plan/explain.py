"""EXPLAIN of a logical plan: stable text, one operator per line, with the update pattern of its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eddyline.plan import nodes
from eddyline.plan.expressions import text
from eddyline.plan.nodes import Node
from eddyline.plan.patterns import label
from eddyline.sql.bound import Aggregate, Expr, Window


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
            source = node.source
            return f"stream {source.stream}{alias_text(source.stream, source.alias)} {window_text(node.window)}"
        case nodes.Table():
            return f"table {node.source.table}{alias_text(node.source.table, node.source.alias)}"
        case nodes.Select():
            return f"select {text(node.condition)}"
        case nodes.Project():
            return "project " + ", ".join(output_text(o.name, text(o.expr)) for o in node.outputs)
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
            by = f" by {', '.join(text(k) for k in node.keys)}" if node.keys else ""
            return f"group{by}: {aggregates_text(node.aggregates)}"


def aggregates_text(aggregates: Sequence[Aggregate]) -> str:
    return ", ".join(f"{a.function}({text(a.argument) if a.argument else '*'})" for a in aggregates)


def window_text(window: Window) -> str:
    size = text(window.size) if window.size is not None else ""
    return {"unbounded": "[UNBOUNDED]", "range": f"[RANGE {size}]", "rows": f"[ROWS {size}]"}[window.kind]


def alias_text(name: str, alias: str) -> str:
    return "" if alias == name else f" AS {alias}"


def output_text(name: str, expression: str) -> str:
    return name if name == expression else f"{expression} AS {name}"


def on_text(condition: Expr | None) -> str:
    return "" if condition is None else f" on {text(condition)}"
