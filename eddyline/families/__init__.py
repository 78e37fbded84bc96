"""Families: all queries of one shape, kept as the rows of one table of constants.

A text becomes (shape, constants) (`texts`), the shape finds its family (`registry`), the constants become a row of the
family's table (`queries`), and the name is taken once in the whole connection (`names`).
"""
