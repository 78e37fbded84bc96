"""State: deltas (batches of changes), SteMs, timelines of future events, query tables. It depends on no host."""
