"""Operators: what plans become. They take and return deltas, know their state and no host.

`base` says what an operator is, `lower` turns plan nodes into operators, and each other file is one operator.
"""
