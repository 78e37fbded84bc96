"""The shared store: one log per stream, one index per key, for all families of an engine."""
