"""A pipeline under random faults for half an hour, recounted from its raw input. See `__main__.py`."""
