"""Delivery: what the folder of a file sink says of itself, how it is read, and how it is compacted, without Spark."""
