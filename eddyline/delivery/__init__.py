"""Delivery: the changes of a step, and the marks, reading and compaction of file sinks. Needs no Spark."""
