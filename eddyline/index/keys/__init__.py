"""Tables that give keys and strings dense ids, binary search in sorted runs, and the buckets of keys."""
