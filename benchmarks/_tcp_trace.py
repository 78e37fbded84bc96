"""A generated trace of TCP connections, split into links by destination. (Document 3, section 6.1.)

A time unit is a millisecond, in which each link gets one connection on average. Sources are skewed (Zipf). A source has
its own few destinations, also skewed. Telnet connections are ten times as frequent as ftp connections, and come from
ten times as many sources, which are less skewed, so that a join on the source has about ten times as many results. The
same arguments give the same trace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UNIT = 1_000  # microseconds
PROTOCOLS = {"telnet": 0.2, "ftp": 0.02, "smtp": 0.38, "nntp": 0.2, "finger": 0.1, "other": 0.1}  # shares

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trace:
    """Parameters. `partners`: destinations of a source."""

    units: int
    links: int = 3
    sources: int = 2_000
    partners: int = 30
    skew: float = 0.8
    telnet_skew: float = 0.65
    seed: int = 3

    def tables(self) -> dict[str, pa.Table]:
        """Connections by link (`link1` to …), in the order of their timestamps, which are distinct in the trace."""
        rng, rows = np.random.default_rng(self.seed), self.units * self.links
        protocol = rng.choice(len(PROTOCOLS), rows, p=list(PROTOCOLS.values()))
        source = _zipf(rng, self.sources, self.skew, rows)
        telnet, ftp = (protocol == list(PROTOCOLS).index(name) for name in ("telnet", "ftp"))
        source[telnet] = _zipf(rng, self.sources, self.telnet_skew, int(telnet.sum()))
        source[ftp] = _zipf(rng, self.sources // 10, self.skew, int(ftp.sum()))
        partner = _zipf(rng, self.partners, self.skew, rows)
        destination = (source * 7_919 + partner * 104_729) % 1_000_003
        columns = {
            "ts": pa.array(np.arange(rows) * UNIT // self.links, pa.timestamp("us")),
            "duration": np.round(rng.lognormal(1.0, 1.5, rows), 3),
            "protocol": pa.DictionaryArray.from_arrays(protocol.astype(np.int32), list(PROTOCOLS)).cast(pa.string()),
            "payload": rng.lognormal(7.0, 2.0, rows).astype(np.int64),
            "source": source,
            "destination": destination,
        }
        trace = pa.table(columns)
        return {f"link{i + 1}": trace.filter(pa.array(destination % self.links == i)) for i in range(self.links)}


def _zipf(rng: np.random.Generator, values: int, skew: float, count: int) -> Ints:
    """Numbers below `values`, where number k has a weight of (k + 1) ** -skew."""
    weights = np.arange(1, values + 1, dtype=np.float64) ** -skew
    return rng.choice(values, count, p=weights / weights.sum()).astype(np.int64)
