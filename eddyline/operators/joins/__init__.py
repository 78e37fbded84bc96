"""Joins: a driver (`stem_join.py`) and its tactics, each a way to compute the results of the changes of one input."""
