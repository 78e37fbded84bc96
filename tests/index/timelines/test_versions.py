"""`send_versions` by what its changes mean, `holds_until` against a plain walk."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.index.timelines.versions import NONE, holds_until, send_versions
from eddyline.state.delta import MAX, MIN

untimed = settings(deadline=None)
LAST = 16  # instants looked at: 0 … LAST
Group = tuple[list[tuple[int, int]], int, int, int]  # entries (time, code), until, code and end of the row out


@st.composite
def group(draw: st.DrawFn) -> Group:
    """Entries at distinct times; where the row that is out runs out among them, there is one, as GROUP BY sees to."""
    codes = st.integers(NONE, 2)
    out_code = draw(codes)
    out_end = draw(st.one_of(st.integers(0, 10), st.just(MAX))) if out_code != NONE else MAX
    times = draw(st.sets(st.integers(1, 12), min_size=1, max_size=6))
    if out_end + 1 < max(times):
        times.add(out_end + 1)
    entries = [(t, draw(codes)) for t in sorted(times)]
    until = draw(st.one_of(st.integers(entries[-1][0], 14), st.just(MAX)))
    return entries, until, out_code, out_end


def send(groups: list[Group]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    entry_at = np.cumsum([0, *(len(g[0]) for g in groups)])
    time, code = (np.array([e[i] for g in groups for e in g[0]], np.int64) for i in (0, 1))
    until, out_code, out_end = (np.array([g[i] for g in groups], np.int64) for i in (1, 2, 3))
    return send_versions(entry_at, time, code, until, out_code, out_end)


def versions_after(groups: list[Group], sent: np.ndarray, i: int) -> list[dict[int, int]]:
    """How often each version is in the answer at each instant, from what was out and what was sent."""
    codes = [e[1] for g in groups for e in g[0]]
    _, _, out_code, out_end = groups[i]
    changes = [(out_code, 1, MIN, out_end)] if out_code != NONE else []
    changes += [
        (out_code if entry == NONE else codes[entry], sign, ts, exp)
        for g, entry, sign, ts, exp in sent.T.tolist()
        if g == i
    ]
    counts = [{c: sum(s for x, s, a, b in changes if x == c and a <= t <= b) for c in range(3)} for t in range(LAST)]
    return [{c: n for c, n in at.items() if n} for at in counts]


@untimed
@given(st.lists(group(), max_size=4))
def test_after_the_changes_each_instant_has_the_version_of_its_latest_entry(groups: list[Group]) -> None:
    sent, _, end_of = send(groups)
    for i, (entries, _, out_code, out_end) in enumerate(groups):
        after = versions_after(groups, sent, i)
        for t in range(LAST):
            known = [code for time, code in entries if time <= t]
            wanted = known[-1] if known else out_code if t <= out_end else NONE
            if t <= max(entries[-1][0], int(end_of[i])):
                assert after[t] == ({} if wanted == NONE else {wanted: 1}), f"instant {t}"
            else:
                assert after[t] == {}, f"instant {t}"


@untimed
@given(st.lists(group(), max_size=4))
def test_the_row_out_afterwards_is_that_of_the_latest_version_with_its_end(groups: list[Group]) -> None:
    _, out, end_of = send(groups)
    codes = [e[1] for g in groups for e in g[0]]
    for i, (entries, until, out_code, out_end) in enumerate(groups):
        wanted = entries[-1][1]
        if out[i] == NONE:
            assert wanted == NONE
        elif out[i] == -2:
            assert (out_code, out_end) == (wanted, end_of[i])
        else:
            assert (codes[out[i]], until) == (wanted, end_of[i])


@untimed
@given(st.lists(group(), max_size=4))
def test_the_row_sent_before_is_taken_back_at_most_once_and_only_while_it_holds(groups: list[Group]) -> None:
    sent, _, _ = send(groups)
    back = [(g, ts, exp) for g, entry, sign, ts, exp in sent.T.tolist() if entry == NONE or sign < 0]
    assert len({g for g, _, _ in back}) == len(back)
    for g, ts, exp in back:
        assert ts <= exp == groups[g][3]


def test_a_version_that_stays_sends_nothing() -> None:
    sent, out, end = send([([(3, 1), (5, 1)], 9, 1, MAX)])
    assert sent.shape == (5, 0)
    assert (out.tolist(), end.tolist()) == ([-2], [MAX])


@untimed
@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.data())
def test_a_value_holds_until_the_instant_before_the_next_different_one(values: list[int], data: st.DataObject) -> None:
    times = [3 * i for i in range(len(values))]
    at = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=5))
    stop = [data.draw(st.integers(a + 1, len(values))) for a in at]
    expected = [
        next((times[p] - 1 for p in range(a, s) if values[p] != values[a]), MAX) for a, s in zip(at, stop, strict=True)
    ]
    arrays = (np.array(x, np.int64) for x in (values, times, at, stop))
    assert holds_until(*arrays).tolist() == expected
