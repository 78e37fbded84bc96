"""The eddy of a grouped filter: in which order rows visit its attributes, learnt from samples of rows.

The order is the one in which a sample enters the fewest filters, weighted by their costs (`index/filters/
order_search.py`). It is evaluated with the bitmaps themselves, so no row is misrouted to explore. Document 1's tickets,
predicates rejected per row, are the yardstick: they cost up to 1.45 times the optimum (`benchmarks/filter_orders.py`).

- When. The first batch gives the first sample. The order is checked again after 1,024 rows, and each time it is
  confirmed after twice as many, up to 65,536. If rows begin to enter more or fewer filters than they did, by 15%, it is
  checked at once.
- Costs. A visit costs a step through the bitmaps of a block, plus, for the first block, the code of the attribute,
  which includes evaluating its expression. Both are measured in searches of at least 256 rows; the least of recent
  measurements counts, because noise only adds. Attributes whose costs differ by less than a factor of 2 count as equal.
- Codes. Where most rows stop after the first attributes, the others are coded only for the rows that need them, if
  the codes saved cost more than a second pass over the first attributes.

(Document 1, sections 2.1 and 4.)
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from eddyline.arrays import Codes, Doubles, Ints, Mask
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.filter_search import Route, Visits
from eddyline.index.filters.order_search import MOST_BLOCKS, better_order, sampled_rows
from eddyline.index.filters.row_codes import RowCodes
from eddyline.index.filters.steps import Steps, steps_in

FIRST_INTERVAL, LONGEST_INTERVAL = 1024, 65_536  # rows between two checks of the order
WORTH_CHANGING = 0.98  # the cost of a new order, relative to the one in force
DRIFT = 0.15  # of the filters entered per row
FEWEST_TIMED = 256  # rows of a search whose times count
EQUAL_COSTS = 2.0
FORGETTING = 1.05  # by which the least cost known grows with each measurement
CODE_COST, STEP_COST = 4e-9, 9e-9  # seconds, until they have been measured
CALLS = 20e-6  # seconds that a second pass takes for any number of rows


class Lookups:
    """How often attributes were looked up: the codes made for searches, and those that only samples needed.

    It outlives the runs of an index, which are replaced as queries are registered and dropped; threads add to it."""

    def __init__(self) -> None:
        self.rows = self.made = self.samples = 0
        self._lock = Lock()

    def add(self, rows: int = 0, made: int = 0, samples: int = 0) -> None:
        """`made` has all codes, also those for samples."""
        with self._lock:
            self.rows += rows
            self.made += made
            self.samples += samples

    @property
    def searches(self) -> int:
        return self.made - self.samples


class FilterEddy:
    """The route through one map, its counters, and what is known about costs."""

    def __init__(self, maps: Bitmaps, lookups: Lookups | None = None) -> None:
        self.attributes = maps.attributes.tolist()
        width = len(self.attributes)
        self.order: Ints = np.arange(width)
        self.at_once = width
        self.rows = self.searches = 0
        self.entered: Ints = np.zeros(width, np.int64)  # (row, block) by group
        self._lookups = lookups or Lookups()
        self.sampled = 0  # lookups that only samples needed
        self.checks = 0
        self.changes = 0  # of the order
        self.selectivity: Doubles = np.full(width, np.nan)  # by group: the share of its predicates that a row satisfies
        self._code: Doubles = np.full(width, CODE_COST)
        self._step = STEP_COST
        self._timed = False
        self._steps: tuple[Steps, Mask] | None = None  # of the order, and of the living queries
        self._sample: Codes | None = None  # collected so far
        self._wait, self._interval = 0, FIRST_INTERVAL  # rows until the next check
        self._rate: float | None = None  # filters entered per row and block since the last check
        self._window_rows, self._window_entered = 0, 0.0

    @property
    def costs(self) -> Doubles:
        """By group, the cost of a visit relative to the cheapest."""
        costs = np.maximum(self._step + self._code, 1e-9)  # a clock may show the same time twice
        relative: Doubles = costs / costs.min()
        return np.where(relative < EQUAL_COSTS, 1.0, relative)

    @property
    def seconds(self) -> Doubles:
        """By group, the measured seconds of a lookup."""
        return self._code

    def route(self, maps: Bitmaps, codes: RowCodes, alive: Mask) -> Route:
        """The route of a batch; learns from a sample of it, if a check is due."""
        width = len(self.order)
        if codes.rows and width and self._wait <= 0:
            codes.make(maps.attributes[self.order[: self.at_once]].tolist())
            self._learn(maps, codes, alive)
        return Route(self._steps_of(maps, alive), self.at_once)

    def _steps_of(self, maps: Bitmaps, alive: Mask) -> Steps:
        """The steps of the order in force; computed again if it or the living queries have changed."""
        known = self._steps
        if known is None or known[0].order is not self.order or not np.array_equal(known[1], alive):
            known = self._steps = (steps_in(maps, self.order, alive), alive)
        return known[0]

    def searched(self, codes: RowCodes, visits: Visits, blocks: int) -> None:
        """Adds what a search did to the counters."""
        entered = int(visits.entered.sum())
        self.rows += codes.rows
        self.searches += 1
        self.entered += visits.entered
        self._wait -= codes.rows
        if codes.rows >= FEWEST_TIMED:
            lookups, seconds = codes.lookups[self.attributes], codes.seconds[self.attributes]
            timed = lookups >= FEWEST_TIMED
            measured = np.where(timed, seconds / np.maximum(lookups, 1), np.inf)
            known = self._code * FORGETTING if self._timed else np.where(timed, np.inf, self._code)
            self._code = np.minimum(measured, known)
            if entered:
                step = visits.seconds / entered
                self._step = min(step, self._step * FORGETTING) if self._timed else step
            self._timed = True
        self._watch(codes.rows, entered / blocks)

    def _watch(self, rows: int, entered: float) -> None:
        """Makes a check due if rows enter more or fewer filters than after the last check."""
        self._window_rows += rows
        self._window_entered += entered
        if self._window_rows < FIRST_INTERVAL:
            return
        rate = self._window_entered / self._window_rows
        if self._rate is None:
            self._rate = rate
        elif abs(rate - self._rate) > DRIFT * self._rate:
            self._wait, self._interval = 0, FIRST_INTERVAL
        self._window_rows, self._window_entered = 0, 0.0

    def _learn(self, maps: Bitmaps, codes: RowCodes, alive: Mask) -> None:
        """Adds rows to the sample; if it is full, or the first one, checks the order."""
        full, before = sampled_rows(maps), self._sample  # portions of a batch may learn at the same time
        count = min(max(full - (0 if before is None else before.shape[1]), 1), codes.rows)
        rows = np.arange(count) * codes.rows // count
        made = int(codes.lookups.sum())
        codes.make(self.attributes, rows)
        lookups = int(codes.lookups.sum()) - made  # before the counter is read: a thread may add to it meanwhile
        self.sampled += lookups
        self._lookups.add(samples=lookups)
        more = codes.table[:, rows]
        sample = more if before is None else np.concatenate([before, more], axis=1)
        self._sample = sample
        if self.checks and sample.shape[1] < full:
            return
        self._check(maps, sample, alive)
        if sample.shape[1] >= full:
            self._sample = None
            self._wait = self._interval
            self._interval = min(2 * self._interval, LONGEST_INTERVAL)

    def _check(self, maps: Bitmaps, sample: Codes, alive: Mask) -> None:
        better = better_order(maps, sample, self._steps_of(maps, alive), self.costs)
        self.checks += 1
        self.selectivity = maps.accepted(sample) / np.maximum(maps.predicates * sample.shape[1], 1)
        if better.cost < WORTH_CHANGING * better.cost_before:
            self.order = better.order
            self.changes += 1
            self._interval = FIRST_INTERVAL
        self.at_once = self._coded_at_once(better.reaching, maps.blocks)
        self._rate = None
        self._window_rows, self._window_entered = 0, 0.0

    def _coded_at_once(self, reaching: Doubles, blocks: int) -> int:
        """How many attributes of the order are best coded for all rows; `reaching` has the share of rows by place."""
        width = len(self.order)
        if blocks > MOST_BLOCKS or not self._timed:
            return width
        code = self._code[self.order]
        cost = [
            code[:n].sum() + reaching[n] * code[n:].sum() + n * blocks * self._step + CALLS * self.searches / self.rows
            for n in range(1, width)
        ]
        best = int(np.argmin([*cost, code.sum()]))
        return best + 1
