"""Operators of a physical plan, one for each node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eddyline.operators.attach import Attach
from eddyline.operators.base import Operator
from eddyline.operators.cluster import Cluster
from eddyline.operators.counting import SetOperation
from eddyline.operators.duplicate_elimination import DuplicateElimination
from eddyline.operators.expirations import Expirations
from eddyline.operators.filter import Filter
from eddyline.operators.group_by import GroupBy
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.joins.stems import Logs, Tables, own_log, own_table
from eddyline.operators.project import Project
from eddyline.operators.rows_window import CountWindow
from eddyline.operators.scan import StreamScan, TableScan
from eddyline.operators.union import UnionAll
from eddyline.plan import physical

OPERATORS: Mapping[type[physical.PhysicalNode], Callable[[Any, list[Operator]], Operator]] = {
    physical.StreamScan: StreamScan,
    physical.TableScan: TableScan,
    physical.CountWindow: CountWindow,
    physical.Filter: Filter,
    physical.Attach: Attach,
    physical.Project: Project,
    physical.UnionAll: UnionAll,
    physical.StemJoin: StemJoin,
    physical.SetOperation: SetOperation,
    physical.DuplicateElimination: DuplicateElimination,
    physical.GroupBy: GroupBy,
    physical.Cluster: Cluster,
    physical.Expirations: Expirations,
}


def build(node: physical.PhysicalNode, logs: Logs = own_log, tables: Tables = own_table) -> Operator:
    """`logs` and `tables` have the logs of streams and the rows of tables that operators share."""
    children = [build(i, logs, tables) for i in node.inputs]
    if isinstance(node, physical.StemJoin):
        return StemJoin(node, children, logs, tables)
    if isinstance(node, physical.CountWindow):
        return CountWindow(node, children, logs(node.scan.source.stream.lower()))
    if isinstance(node, physical.GroupBy) and node.ends == "in log":
        (scan,) = (o for o in children[0].walk() if isinstance(o, StreamScan))
        return GroupBy(node, children, logs(scan.stream))
    return OPERATORS[type(node)](node, children)
