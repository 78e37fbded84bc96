"""The in-process host: all of the SQL and Python API in one process, without a JVM."""
