"""A run of a pipeline: settings, the checkpoint, Spark's session and stages, progress, and the care of checkpoints."""
