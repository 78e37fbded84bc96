"""Groups of ranges: which of very many joins a tuple affects, and with which rows."""
