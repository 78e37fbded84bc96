"""Joins: a driver (`stem_join.py`) and its tactics, one per way in which the changes of an input find their results."""
