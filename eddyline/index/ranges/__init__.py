"""Indexes of query ranges: which queries an arriving tuple affects in a join over ranges, and with which rows."""
