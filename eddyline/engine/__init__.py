"""The engine: what a catalog change is, what applies it, and the families that take steps."""
