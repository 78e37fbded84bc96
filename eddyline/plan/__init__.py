"""Query plans: logical nodes, rewrites, update patterns, physical nodes, partitioning, EXPLAIN."""
