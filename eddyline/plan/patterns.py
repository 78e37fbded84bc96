"""Update patterns (document 3, sections 3 and 5.2): how the rows of an edge come to leave it.

MONOTONIC never leave; WKS leave in the order they came; WK leave at a time known when they come; STR may leave at any
time, told by a negative row. Leaves: an unbounded stream is MONOTONIC, a time window WKS, a count window STR (its
expirations cannot be predicted, section 7), a table STR. The five rules then give every other edge.
"""

from __future__ import annotations

from enum import IntEnum

from eddyline.plan.nodes import (
    Distinct,
    GroupBy,
    Intersect,
    Join,
    Negation,
    Node,
    Project,
    Select,
    Stream,
    Table,
    TableJoin,
    Union,
)


class Pattern(IntEnum):
    MONOTONIC = 0
    WKS = 1
    WK = 2
    STR = 3


def label(node: Node) -> Pattern:
    inputs = [label(i) for i in node.inputs]
    worst = max(inputs, default=Pattern.MONOTONIC)
    match node:
        case Stream():
            return {"unbounded": Pattern.MONOTONIC, "range": Pattern.WKS, "rows": Pattern.STR}[node.window.kind]
        case Table():
            return Pattern.STR
        case Select() | Project():  # rule 1
            return worst
        case TableJoin(kind="non-retroactive"):  # rule 1
            return inputs[0]
        case Union():  # rule 2
            return worst
        case Join() | Intersect() | Distinct():  # rule 3; over unbounded streams nothing ever leaves
            return worst if worst in (Pattern.MONOTONIC, Pattern.STR) else Pattern.WK
        case GroupBy():  # rule 4
            return Pattern.WK
        case Negation() | TableJoin():  # rule 5
            return Pattern.STR
