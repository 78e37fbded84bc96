"""Grouped filters: which of very many conditions a row satisfies."""
