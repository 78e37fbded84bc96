"""The session: statements become actions. It has the catalog and the registry of queries, and runs nothing."""
