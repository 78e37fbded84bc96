"""Stabbing partitions that are kept up to date as ranges come and go."""
