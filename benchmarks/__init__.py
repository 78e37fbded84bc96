"""One file per claim: it runs, prints a table, and leaves its figures as JSON under docs/benchmarks/."""
