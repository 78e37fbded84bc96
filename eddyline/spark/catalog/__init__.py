"""The catalog of a pipeline: its commit log, the session in step with it, and what others may declare."""
