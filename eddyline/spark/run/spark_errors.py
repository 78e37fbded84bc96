"""Turns errors of Spark into errors of Eddyline.

An error raised in a Python worker, a resident process or the driver's delivery reaches the user inside an error of
Spark, after the tracebacks of two languages. This module extracts it by its class name, and reduces other errors to one
sentence. Spark's error stays the cause (`__cause__`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from eddyline import errors
from eddyline.errors import Error, StateError

_KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Error)}
_OURS = re.compile(r"^eddyline\.(?:\w+\.)+(\w+): ", re.MULTILINE)
_END = re.compile(r"\n\s*\n|\n\s+at [\w.$]+\(|\n\s*SQLSTATE: |\n=== |\nJVM stacktrace")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ((?:(?!\[[A-Z]).)*)")
_WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "PYTHON_EXCEPTION", "FAILED_EXECUTE_UDF")
_INTERRUPTED = (
    "java.lang.InterruptedException",
    "InterruptedIOException",
    "ClosedByInterruptException",
    "JOB_CANCELLED",
)
_UNREACHED = "StatusCode.UNAVAILABLE"  # the status of Spark Connect, after minutes of retries
_JAVA = re.compile(r"\AAn error occurred while calling .*\n: (?:[\w.$]+: )?(.+)")
_GONE = "Spark has ended: its JVM was killed, or has crashed."
_AGAIN = "Start the pipeline again: it goes on from its checkpoint. `dmesg` tells whether memory ran out."
_FULL = (
    "Free space on the disks of the checkpoint, the sinks and TMPDIR, and start the pipeline again: nothing is lost."
)
_MORE = "--verbose shows all that Spark says."


@contextmanager
def as_our_errors() -> Iterator[None]:
    """Turns an error of Spark, or of the connection to it, into an Error."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as e:
        raise as_error(e) from e


@contextmanager
def reaching_spark() -> Iterator[None]:
    """Turns errors of the connection to a Spark that has died into an Error; other errors of Spark are unchanged."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as e:
        if not is_gone(e):
            raise
        raise as_error(e) from e


def is_gone(error: BaseException) -> bool:
    """Whether an error says that Spark's JVM, or its server, cannot be reached."""
    if isinstance(error, PySparkException):
        return _UNREACHED in str(error)
    if isinstance(error, Py4JError):
        return not isinstance(error, Py4JJavaError) and "Trace:" not in str(error)
    return isinstance(error, ConnectionError)


@contextmanager
def interrupted_briefly() -> Iterator[None]:
    """Replaces the error of an interrupted delivery by a short one.

    Spark searches the text of the error for an interruption, with a pattern that overflows the stack of the JVM on a
    text as long as the tracebacks of both languages.
    """
    try:
        yield
    except Exception as e:
        if not is_interruption(e):
            raise
        calling = "py4j.protocol.Py4JJavaError: An error occurred while calling"
        raise RuntimeError(f"{calling} Spark: {_INTERRUPTED[0]}") from None


def is_interruption(error: Exception | str) -> bool:
    """Whether an error only means that Spark was told to stop."""
    text = str(error)
    return any(sign in text for sign in _INTERRUPTED)


def as_error(failure: Exception) -> Error:
    error = StateError(_GONE, hint=_AGAIN) if is_gone(failure) else error_in(str(failure))
    error.__cause__ = failure
    return error


def error_in(account: str) -> Error:
    """The innermost Error in the text of an error; else the innermost condition of Spark, or error of Python."""
    ours = list(_OURS.finditer(account))
    if ours:
        return _ours(ours[-1][1], _until_end(account[ours[-1].end() :]))
    conditions = [text for name, text in _CONDITION.findall(account) if name not in _WRAPPERS]
    more = _FULL if "No space left on device" in account else _MORE
    if conditions:
        return StateError(f"Spark: {re.sub(r' SQLSTATE: .*', '', conditions[-1])}", hint=more)
    java = _JAVA.search(account)
    if java:
        return StateError(f"Spark: {java[1]}", hint=more)
    _, trace, last = account.rpartition("Traceback (most recent call last):\n")
    first = next((line for line in account.splitlines() if line.strip()), "It gave no reason.")
    return StateError(_raised(last) if trace else f"Spark: {first}", hint=more)


def _ours(name: str, text: str) -> Error:
    """`text` is the message, followed by the lines of place and hint."""
    message, _, more = text.rstrip().partition("\n")
    return _KINDS.get(name, StateError)(message, hint=more.strip() or None)


def _raised(trace: str) -> str:
    """The line of a traceback that has the error: the first line after it that is not indented."""
    lines = [line for line in _until_end(trace).splitlines()[1:] if line.strip() and not line.startswith(" ")]
    return lines[0] if lines else trace.strip().splitlines()[-1]


def _until_end(text: str) -> str:
    end = _END.search(text)
    return text[: end.start()] if end else text


class ConnectionLost(logging.Filter):
    """Drops the tracebacks that py4j logs in every thread when Spark has died: the run reports it once."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return error is None or not is_gone(error) or "py4j" not in record.pathname

    @classmethod
    def install(cls) -> None:
        """Adds the filter to the loggers that py4j uses: filters are not inherited by child loggers.

        The server of Spark's accumulators prints the traceback of a lost connection without a logger.
        """
        server = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
        if server is not None:
            server.handle_error = lambda *_: None
        for name in ("", "py4j.clientserver", "py4j.java_gateway"):
            logger = logging.getLogger(name)
            if not any(isinstance(f, cls) for f in logger.filters):
                logger.addFilter(cls())
