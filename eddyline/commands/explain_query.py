"""`eddyline query explain`: prints the facts about a query of a pipeline, and why it does not fire."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from eddyline.shell.printing import plural
from eddyline.spark.catalog.explaining import Explained, Source
from eddyline.state.delta import MIN, times


def lines(x: Explained) -> Iterator[str]:
    yield x.plan
    yield f"split over buckets: {x.split}"
    if x.streams:
        yield f"clock: {_moment(x.clock)}{_leading(x)}"
    for source in x.sources:
        yield _source(source, x.since)
    yield f"changes of family {x.family.name}: {_family(x)}"
    if x.kind == "query":
        yield f"last change of {x.name}: {_last(x)}"
    if x.quarantine is not None:
        yield f"quarantine: {x.quarantine}"
    yield f"catalog: {_version(x)}"
    yield f"pipeline: {'running' if x.runs else 'not running'}"
    reason = why(x)
    if reason:
        yield f"why it does not fire: {reason}"


def why(x: Explained) -> str:
    """One sentence: why a query has had no change, or has none at present; empty if no reason is known."""
    start = "" if x.runs else " The pipeline is not running."
    if x.quarantine is not None:
        return f"It is in quarantine. `eddyline query resume {x.name}` lets it begin anew."
    if x.in_force is None:
        return f"No micro-batch has ended yet.{start}"
    if x.registered is not None:
        later = f"the last micro-batch had commit {x.in_force}"
        return f"It was registered by commit {x.registered}, {later}; it takes effect with the next one.{start}"
    waiting = _waiting_for(x)
    if x.last is not None or (x.kind == "family" and x.of_family is not None):
        return waiting
    return _no_input(x) or waiting or _no_match(x)


def _no_input(x: Explained) -> str:
    for s in (s for s in x.streams if s.watermark == MIN):  # no valid row has arrived
        if s.counts is not None and s.counts.bad:
            return f"All rows of the stream {s.name!r} were bad: `eddyline late {s.name}` shows them."
        return f"The stream {s.name!r} has had no row."
    return ""


def _waiting_for(x: Explained) -> str:
    """The stream that holds back a query whose answers wait for the clock."""
    if not x.streams or not any(node.waits for node in x.family.physical.walk()):
        return ""
    behind = min(x.streams, key=lambda s: s.watermark or 0)
    ahead = max(x.streams, key=lambda s: s.watermark or 0)
    if x.policy != "min" or behind.watermark == ahead.watermark or behind.watermark is None:
        return ""
    where = "has had no row" if behind.watermark == MIN else f"is at {_moment(behind.watermark)}"
    return f"Its answers wait for the stream {behind.name!r}, which {where}, while {ahead.name!r} is ahead."


def _no_match(x: Explained) -> str:
    if x.of_family is None and not x.since:
        rows = sum(s.counts.rows for s in x.streams if s.counts is not None)
        return f"None of the {plural(rows, 'row')} of its streams has changed an answer of its family."
    if x.kind == "query" and x.of_family is not None and x.sinks and not x.unsearched:
        return (
            "Other queries of its family had changes; no row that came after its registration has met its conditions."
        )
    return ""


# formatting


def _source(s: Source, since: int) -> str:
    kind = "table" if s.watermark is None else "stream"
    if s.counts is None:
        counts = "not counted"
    else:
        counts = f"{plural(s.counts.rows, 'row')}, {s.counts.late:,} late, {s.counts.bad:,} bad"
        counts += f" since micro-batch {since}" if since else ""
        counts += "" if s.counts.batch is None else f"; the last came in micro-batch {s.counts.batch}"
    return f"{kind} {s.name}: {counts}" + ("" if s.watermark is None else f"; watermark {_moment(s.watermark)}")


def _family(x: Explained) -> str:
    if x.of_family is None:
        return "none" if not x.since else f"none since micro-batch {x.since}"
    at = datetime.fromtimestamp(x.of_family.at, UTC).replace(tzinfo=None).isoformat(" ", "seconds")
    return f"{x.of_family.changes:,}; the last in micro-batch {x.of_family.batch}, delivered at {at} UTC"


def _last(x: Explained) -> str:
    if x.last is not None:
        return f"{x.last.op} at {x.last.ts}, micro-batch {x.last.batch}, in sink {x.last.sink}"
    if not x.sinks:
        return "not known: no sink of files gets its changes"
    if x.unsearched:
        return f"not in the last {plural(x.searched, 'file')} of its sinks; {x.unsearched:,} older ones were not read"
    return f"none in {', '.join(x.sinks)}"


def _version(x: Explained) -> str:
    used = "no micro-batch has ended" if x.in_force is None else f"the last micro-batch had commit {x.in_force}"
    return f"commit {x.version}; {used}"


def _leading(x: Explained) -> str:
    if len(x.streams) < 2:
        return ""
    choose = min if x.policy == "min" else max
    return f" (that of {choose(x.streams, key=lambda s: s.watermark or 0).name})"


def _moment(micros: int | None) -> str:
    if micros is None or micros == MIN:
        return "has not begun"
    return str(times(np.array([micros], np.int64))[0].as_py())
