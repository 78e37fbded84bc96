"""Clusters: stateful operators keep their state once per class of queries, not once per query.

Queries of a family that agree on every parameter used below, and to which the same tuples are visible, have the same
state there. The operators below run on a table of such classes. A change of a class becomes a change of each member
that satisfies the conditions above (HAVING with another threshold). State and work below are per class.

A query joins an existing class only if the class has no state yet: no tuple has arrived since it was created, and no
operator below has an answer before one does (a table, a group that always exists). Classes that began at different
moments merge once all that only the older has seen is out of its windows (`twin_classes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.index.keys.sorted_runs import equal_ranges, pieces, spread
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.matcher import Matcher
from eddyline.operators.query_index import QueryIndex
from eddyline.operators.rows_window import CountWindow
from eddyline.operators.scan import StreamScan
from eddyline.operators.twin_classes import Twins, equal_rows
from eddyline.plan import physical
from eddyline.sql.bound import Field
from eddyline.state.delta import Delta, concat, query_of
from eddyline.state.list_rows import ListRows
from eddyline.state.query_table import QueryRows, QueryTable
from eddyline.state.saved_tables import loaded_ints


class Cluster(Operator):
    def __init__(self, node: physical.Cluster, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.used = node.params  # below
        self.initial_answer = node.initial_answer
        self.classes: QueryTable | None = None
        self.query: Ints = np.empty(0, np.int64)  # members, sorted by class
        self.member_of: Ints = np.empty(0, np.int64)
        self.matcher = Matcher(node.where, (), self.types)
        self._latest = -1  # the largest id of a query in a class
        self._known: dict[int, tuple[ColumnCoder, KeyTable, list[int]]] = {}
        below = children[0].walk()
        self._scans = [o for o in below if isinstance(o, StreamScan)]
        mergeable = not any(isinstance(o, CountWindow) for o in below)
        self._twins = Twins() if mergeable and self._scans else None

    def pull(self, step: Step) -> Delta:
        classes = self._classes(step.queries)
        new = self._classify(step, classes)
        if self._twins is not None:
            for batch in step.streams.values():
                self._twins.see(batch.ts)
            self._add_twins(self._twins, classes.rows(), new, step.functions, self._twins.seen)
            if step.kind == "arrivals":
                self._merge(self._twins, classes, step.before)
        rows = classes.rows()
        if step.kind == "replay":
            rows = rows.only(new)
        failures = step.functions.failures
        known = len(failures or ())
        changes = self.children[0].pull(replace(step, queries=rows))
        if failures is not None:
            failures[known:] = [replace(f, queries=self._members(f.queries)) for f in failures[known:]]
        return self._to_members(step, changes)

    def indexes(self) -> Sequence[QueryIndex]:
        return (self.matcher.index,)

    def _members(self, classes: Ints | None) -> Ints | None:
        """The queries of these classes."""
        return None if classes is None else np.sort(self.query[np.isin(self.member_of, classes)])

    def _classes(self, queries: QueryRows) -> QueryTable:
        if self.classes is None:
            self.classes = QueryTable([Field(f"p{i}", c[0].type) for i, c in enumerate(queries.columns)])
        return self.classes

    def _classify(self, step: Step, classes: QueryTable) -> Ints:
        """Puts new queries into classes; returns the new classes."""
        live = step.queries.live()
        live = live[step.queries.ids_at(live) > self._latest]
        if not len(live):
            return np.empty(0, np.int64)
        ids = step.queries.ids_at(live)
        self._latest = int(ids[-1])
        since = step.queries.since_at(live)
        first_new = classes.next_id
        member_of = np.empty(len(live), np.int64)
        for moment in np.unique(since):
            mine = np.nonzero(since == moment)[0]
            member_of[mine] = self._class_of(step, live[mine], int(moment), classes)
        query = np.concatenate([self.query, ids])
        both = np.concatenate([self.member_of, member_of])
        order = np.lexsort((query, both))
        self.query, self.member_of = query[order], both[order]
        return np.arange(first_new, classes.next_id)

    def _class_of(self, step: Step, position: Ints, since: int, classes: QueryTable) -> Ints:
        """The class of each query, for queries registered at the same arrival number."""
        chosen = step.queries.params_at(set(self.used), position)
        columns = [_comparable(chosen[i]) for i in self.used]
        if since not in self._known or self.initial_answer:
            coder = ColumnCoder([c.type for c in columns])
            self._known = {since: (coder, KeyTable(coder.width), [])}  # `since` ascends: no earlier one is needed
        coder, table, ids = self._known[since]
        slots = table.insert(coder.codes(columns, len(position)))
        if len(table) > len(ids):
            slot, first = np.unique(slots, return_index=True)
            first = first[slot >= len(ids)]  # a query of each new class, in the order of slots
            names = pa.array([""] * len(first), pa.string())
            ids += classes.add(names, step.queries.all_params_at(position[first]), since).tolist()
        return np.array(ids, np.int64)[slots]

    def _add_twins(self, twins: Twins, rows: QueryRows, new: Ints, functions: Functions, horizon: int | Ints) -> None:
        if len(new):
            positions = rows.positions(new)
            chosen = rows.params_at(set(self.used), positions)
            windows = np.max([scan.widths(rows, positions, functions) for scan in self._scans], axis=0)
            twins.add(new, [_comparable(chosen[i]) for i in self.used], windows, horizon)

    def _merge(self, twins: Twins, classes: QueryTable, clock: int) -> None:
        """Lets members of classes that have the same future as an older one join it."""
        pairs = twins.due(clock)
        if not pairs:
            return
        involved = np.unique([c for younger, older, _ in pairs for c in (younger, older)])
        alive = set(classes.rows().alive_among(involved).tolist())
        pairs = [p for p in pairs if p[0] in alive and p[1] in alive]
        sent = [rows for o in self.children[0].walk() if (rows := o.sent(involved)) is not None]
        rows_of, gone = equal_rows(involved, sent, clock), []
        for younger, older, window in pairs:
            if rows_of[younger] != rows_of[older]:
                twins.postpone(younger, older, window, clock)
                continue
            twins.merged(younger, older)
            gone.append((younger, older))
        if gone:
            self._join(classes, dict(gone))

    def _join(self, classes: QueryTable, older: dict[int, int]) -> None:
        """Moves the members of classes to older ones; classes without members are dropped."""
        for younger in sorted(older):  # the older class may have joined another one in the same step
            older[younger] = older.get(older[younger], older[younger])
        moved = np.nonzero(np.isin(self.member_of, list(older)))[0]
        self.member_of[moved] = [older[c] for c in self.member_of[moved].tolist()]
        order = np.lexsort((self.query, self.member_of))
        self.query, self.member_of = self.query[order], self.member_of[order]
        self._drop_classes(classes, np.array(sorted(older), np.int64))

    def _drop_classes(self, classes: QueryTable, gone: Ints) -> None:
        self._known.clear()
        classes.drop(gone)
        super().forget(gone)
        if classes.crowded:
            classes.compact()

    def _to_members(self, step: Step, changes: Delta) -> Delta:
        """Changes of classes as changes of their members, under the condition."""
        low, high = equal_ranges(self.member_of, query_of(changes))
        if (high - low == 1).all():  # a class of one query
            return self.matcher.filter(step, replace(changes, query=self.query[low]))
        parts = []
        for start, begins, ends in pieces(low, high):
            change, member = spread(begins, ends)
            own = replace(changes.take(change + start), query=self.query[member])
            parts.append(self.matcher.filter(step, own))
        return concat(parts, self.types, attached=True)

    def forget(self, queries: Ints) -> None:
        """Removes members, and classes without members."""
        before = np.unique(self.member_of)
        kept = ~np.isin(self.query, queries)
        self.query, self.member_of = self.query[kept], self.member_of[kept]
        gone = np.setdiff1d(before, self.member_of)
        if self.classes is not None and len(gone):
            if self._twins is not None:
                self._twins.dropped(gone)
            self._drop_classes(self.classes, gone)

    def expire(self, step: Step) -> None:
        super().expire(replace(step, queries=self._classes(step.queries).rows()))

    def note(self) -> str:
        return f"{len(self.query)} queries in {0 if self.classes is None else len(self.classes)} classes"

    def nbytes(self) -> int:
        classes = 0 if self.classes is None else self.classes.nbytes
        return self.query.nbytes + self.member_of.nbytes + classes

    def save(self) -> dict[str, pa.Table]:
        members = pa.table({"query": self.query, "class": self.member_of})
        if self.classes is None:
            return {"members": members}
        counters = pa.table({"next_class": [self.classes.next_id], "latest": [self._latest]})
        saved = {"members": members, "classes": self.classes.save(), "counters": counters}
        if self._twins is not None:
            horizon = self._twins.horizons
            kept = {"class": pa.array(list(horizon), pa.int64()), "horizon": pa.array(horizon.values(), pa.int64())}
            saved |= {"horizons": pa.table(kept), "seen": pa.table({"seen": [self._twins.seen]})}
        return saved

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        self.query, self.member_of = loaded_ints(saved["members"], "query", "class")
        if "classes" in saved:
            table = saved["classes"]
            names = [n for n in table.column_names if n.startswith("p")]
            self.classes = QueryTable([Field(n, table.schema.field(n).type) for n in names])
            counters = saved["counters"]
            self.classes.load(table, counters.column("next_class")[0].as_py())
            self._latest = counters.column("latest")[0].as_py()
            if self._twins is not None and "horizons" in saved:
                self._load_twins(self._twins, self.classes.rows(), saved, functions)

    def _load_twins(self, twins: Twins, rows: QueryRows, saved: dict[str, pa.Table], functions: Functions) -> None:
        twins.seen = saved["seen"].column("seen")[0].as_py()
        ids = rows.ids_at(rows.live())
        known, horizon = loaded_ints(saved["horizons"], "class", "horizon")
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known[order], ids), max(0, len(known) - 1))
        before = np.full(len(ids), twins.seen)
        if len(known):
            mine = known[order][place] == ids
            before[mine] = horizon[order][place[mine]]
        self._add_twins(twins, rows, ids, functions, before)


def _comparable(values: pa.Array | ListRows | None) -> pa.Array:
    """Parameters in a form that can be compared; lists as digests."""
    return values.digests() if isinstance(values, ListRows) else values
