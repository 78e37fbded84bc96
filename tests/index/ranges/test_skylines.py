"""Links lead along every skyline, and are there only where they may be followed."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.index.ranges.skylines import linked


def segment(rng: np.random.Generator, rows: int, lasting: int | None) -> np.ndarray:
    """Rows in order of their first axis; the second is time. Without `lasting`, rows end when they like."""
    ts = rng.integers(0, 30, rows)
    ends = ts + (rng.integers(0, 9, rows) if lasting is None else lasting)
    return np.stack([ts, ends, np.arange(rows), np.sort(rng.integers(0, 50, rows)), ts])


@pytest.mark.parametrize("seed", range(40))
def test_from_any_row_links_lead_to_those_that_are_later_than_all_before(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = linked(segment(rng, int(rng.integers(1, 60)), 9))
    later, before, behind = found[4], found[5], found[6]
    for start in range(len(later)):
        for link, outward in ((before, range(start, -1, -1)), (behind, range(start, len(later)))):
            skyline: list[int] = []
            for k in outward:
                if not skyline or later[k] > later[skyline[-1]]:
                    skyline.append(k)
            k, followed = start, []
            while 0 <= k < len(later):
                followed.append(k)
                k = int(link[k])
            assert followed == skyline, f"seed {seed}"


def test_there_are_no_links_where_a_later_row_may_end_earlier() -> None:
    rng = np.random.default_rng(1)
    assert len(linked(segment(rng, 30, None))) == 5
    assert len(linked(segment(rng, 0, 9))) == 5
    together = segment(rng, 30, 9)
    together[1] = 100
    assert len(linked(together)) == 7
    moved = segment(rng, 30, 9)
    moved[4] = rng.integers(0, 30, 30)  # another attribute than the time from which rows last
    assert len(linked(moved)) == 5
