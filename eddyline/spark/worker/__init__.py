"""Engines at work beside Spark: buckets and packers in resident processes, fed with blocks."""
