"""SQL: the parser (a thin dialect over sqlglot), the binder, and the catalog."""
