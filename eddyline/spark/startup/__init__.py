"""A folder on the path of Spark's Python processes, whose `sitecustomize` they run when they start."""
