"""Text to bound statements: a thin dialect over sqlglot, and the catalog of what statements can name."""
