"""The in-process host: the whole contract on one machine, without a JVM."""
