"""Update patterns: how the rows of a node's output expire. (Document 3, sections 3 and 5.2.)

MONOTONIC rows never expire. WKS rows expire in the order of their arrival. WK rows expire at a time known on arrival.
STR rows may be retracted at any time by a negative row. An unbounded stream is MONOTONIC, a time window WKS, a count
window STR (its expirations cannot be predicted, section 7) and a table STR. Five rules derive all other patterns.
"""

from __future__ import annotations

from enum import IntEnum

from eddyline.plan import nodes
from eddyline.plan.nodes import Node


class Pattern(IntEnum):
    MONOTONIC = 0
    WKS = 1
    WK = 2
    STR = 3


def label(node: Node) -> Pattern:
    inputs = [label(i) for i in node.inputs]
    worst = max(inputs, default=Pattern.MONOTONIC)
    match node:
        case nodes.Stream():
            return {"unbounded": Pattern.MONOTONIC, "range": Pattern.WKS, "rows": Pattern.STR}[node.window.kind]
        case nodes.Table():
            return Pattern.STR
        case nodes.Select() | nodes.Project():  # rule 1
            return worst
        case nodes.TableJoin(kind="non-retroactive"):  # rule 1
            return inputs[0]
        case nodes.Union():  # rule 2
            return worst
        case nodes.Join() | nodes.Intersect() | nodes.Distinct():  # rule 3; over unbounded streams no row expires
            return worst if worst in (Pattern.MONOTONIC, Pattern.STR) else Pattern.WK
        case nodes.GroupBy():  # rule 4
            return Pattern.WK
        case nodes.Negation() | nodes.TableJoin():  # rule 5
            return Pattern.STR
