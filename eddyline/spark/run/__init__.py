"""Runs of a pipeline: settings, the checkpoint, Spark's session and stages, progress, and checkpoint maintenance."""
