"""Plans: frozen nodes, rewrites, update patterns, EXPLAIN."""
