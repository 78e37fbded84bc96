"""What ended a run, in Eddyline's words: an error of ours out of the account that Spark gives of it.

An error that is raised in a Python worker, a resident process or the driver's delivery reaches the user inside of
Spark's own, after the traces of two languages. Here it is found again by its name.
"""

from __future__ import annotations

import re

from eddyline import errors
from eddyline.errors import Error, StateError

_KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Error)}
_NAMED = re.compile(rf"^(?:Caused by: .*?)?eddyline\.(?:\w+\.)*({'|'.join(_KINDS)}): ", re.MULTILINE)
_END = re.compile(r"\n\s*\n|\n\s+at [\w.$]+\(|\n\s*Traceback |\nJVM stacktrace|\n=== ")
_BUG = "Eddyline has failed, not your query: `--verbose` shows where. What was delivered so far is whole."
_MORE = "`--verbose` shows all that Spark says."


def told(account: str) -> Error:
    """The error of ours inside of an account, or what Spark says in one sentence."""
    found = list(_NAMED.finditer(account))
    if found:
        text = account[found[-1].end() :]
        end = _END.search(text)
        return _ours(_KINDS[found[-1][1]], text[: end.start()] if end else text)
    return _sparks(account)


def _ours(kind: type[Error], text: str) -> Error:
    """`text` is the message, then the lines of place and hint."""
    inner, colon, rest = text.partition(": ")
    if colon and inner in _KINDS:  # a resident's error, told by the worker that had called it
        return _ours(_KINDS[inner], rest)
    if colon and rest.startswith("Traceback "):
        return StateError(f"{rest.strip().splitlines()[-1]}.", hint=_BUG)
    message, _, more = text.rstrip().partition("\n")
    return kind(message, hint=more.strip() or None)


def _sparks(account: str) -> Error:
    """The innermost condition that Spark names, such as `[PATH_NOT_FOUND] Path does not exist: …`."""
    named = re.findall(r"\[[A-Z][A-Z0-9_.]+\] [^\n]*", account)
    telling = [n for n in named if not n.startswith(("[STREAM_FAILED]", "[FAILED_EXECUTE_UDF]"))]
    first = next((line for line in account.splitlines() if line.strip()), "unknown")
    return StateError(f"Spark: {(telling or [first])[-1]}", hint=_MORE)
