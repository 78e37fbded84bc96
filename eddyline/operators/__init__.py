"""Operators: the executable form of physical plans. They take and return deltas; they depend on no host.

`base` defines an operator, `build` makes one for each plan node, and most other files are one operator each.
"""
