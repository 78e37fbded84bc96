"""Bucket keys: for each Spark partition, an integer that Spark's hash partitioning sends to that partition."""

from __future__ import annotations

_SEED = 42  # of Spark's hash partitioning
_BITS = 0xFFFFFFFF


def bucket_keys(partitions: int) -> list[int]:
    """Spark hashes keys[i] to partition i."""
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < partitions:
        keys.setdefault(_murmur3(key) % partitions, key)
        key += 1
    return [keys[i] for i in range(partitions)]


def _murmur3(value: int) -> int:
    """Murmur3 x86_32 of a 32-bit integer as Spark computes it, signed."""
    k = value * 0xCC9E2D51 & _BITS
    k = (k << 15 | k >> 17) & _BITS
    h = _SEED ^ (k * 0x1B873593 & _BITS)
    h = (h << 13 | h >> 19) & _BITS
    h = (h * 5 + 0xE6546B64 & _BITS) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _BITS
    h = (h ^ h >> 13) * 0xC2B2AE35 & _BITS
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
