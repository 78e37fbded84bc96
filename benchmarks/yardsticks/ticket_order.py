"""Document 1's tickets for the filters of a stream: an attribute earns one for every predicate that a row rejects.

Learnt from every batch before it is searched, so the order is as good as tickets can make it. (Section 4.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Codes, Ints
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.routing.eddy import Eddy


class TicketOrder:
    def __init__(self, maps: Bitmaps) -> None:
        self.maps = maps
        self.eddy = Eddy()
        self.groups = range(len(maps.attributes))

    def learn(self, codes: Codes) -> Ints:
        """The order for these rows, after learning from them."""
        rows = codes.shape[1]
        accepted = self.maps.accepted(codes).tolist()
        for group, predicates in enumerate(self.maps.predicates.tolist()):
            self.eddy.learn(group, rows, predicates * rows, accepted[group])
        return np.array(self.eddy.order(self.groups))

    def shares(self) -> list[float]:
        """By group, its share of all tickets."""
        return self.eddy.shares(self.groups)
