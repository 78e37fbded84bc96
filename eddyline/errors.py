"""The errors that Eddyline raises: each names the object, shows the position in the SQL, and says what to do.

`place` is (line, column), counted from one; None if the error has no SQL text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 100  # characters shown of a line on each side of the position
_STRING = r"'(?:[^'\\]|\\.|'')*(?:'|\Z)|\"(?:[^\"\\]|\\.|\"\")*(?:\"|\Z)"  # also one that is not closed
_OPTIONS = re.compile(rf"\bOPTIONS\s*\((?:[^()'\"]|{_STRING})*", re.IGNORECASE)
_OPTION = re.compile(rf"(?P<name>{_STRING}|[\w.`-]+)(?P<between>\s*=?\s*)(?P<value>{_STRING})")
_SECRET = re.compile(
    r"passw|secret|token|credential|jaas|keytab|key\.pem|keystore\.key|(?:access|account|api|private|shared|sas)[._-]?key",
    re.IGNORECASE,
)


def is_secret(option: str) -> bool:
    """Whether the value of an option with this name is a secret."""
    return _SECRET.search(option) is not None


def redacted(sql: str) -> str:
    """A statement with the secrets in its OPTIONS replaced by stars. Its length stays the same."""
    return _OPTIONS.sub(lambda options: _OPTION.sub(_without_secret, options[0]), sql)


def _without_secret(option: re.Match[str]) -> str:
    value = option["value"]
    if not is_secret(option["name"]) or re.fullmatch(r".\$\{(?:env|file):[^}]*\}.", value):
        return option[0]
    closed = len(value) > 1 and value[-1] == value[0]
    inside = value[1:-1] if closed else value[1:]
    stars = re.sub(r"[^\n]", "*", inside)
    return f"{option['name']}{option['between']}{value[0]}{stars}{value[0] if closed else ''}"


class Error(Exception):
    """The base of all errors that Eddyline raises on purpose."""

    def __init__(
        self, message: str, *, hint: str | None = None, sql: str | None = None, span: tuple[int, int] | None = None
    ) -> None:
        if len(message) > 6 * _SHOWN:  # it quotes something very long
            message = f"{message[: 4 * _SHOWN]} … {message[-_SHOWN:]}"
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.sql = sql
        self.span = span

    @property
    def place(self) -> tuple[int, int] | None:
        if self.sql is None:
            return None
        start = self.span[0] if self.span else 0
        before = self.sql[:start]
        return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1

    def at(self, sql: str, span: tuple[int, int] | None) -> Error:
        """This error with its SQL and span set, unless it already has them."""
        if self.sql is None:
            self.sql = sql
        if self.span is None:
            self.span = span
        return self

    def __str__(self) -> str:
        lines = [self.message]
        if self.sql is not None and self.place is not None:
            line, column = self.place
            text = redacted(self.sql).split("\n")[line - 1]
            left = max(0, column - 1 - _SHOWN)  # a long line is cut around the position
            width = max(1, min(self.span[1] - self.span[0], len(text) - column + 1, _SHOWN)) if self.span else 1
            around = ("…" if left else "") + text[left : column - 1 + width + _SHOWN]
            pointer = " " * (column - 1 - left + bool(left)) + "^" * width
            lines += [f"  at line {line}, column {column}:", f"    {around}", f"    {pointer}"]
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


class ParseError(Error):
    """The text is not a statement of the language."""


class BindError(Error):
    """The statement names something that does not exist, or combines types that do not go together."""


class CatalogError(Error):
    """A name is taken, missing, or still in use."""


class DataError(Error):
    """Rows or parameters that do not fit their declaration; none of them was applied."""


class StateError(Error):
    """A saved state that cannot be written, read, or understood."""


class FamilyError(Error):
    """The operators of one family failed: it is in quarantine until it is resumed or dropped."""


class StepTooLarge(FamilyError):
    """A family was stopped before a step that would build more rows than allowed."""


class FamilyWarning(UserWarning):
    """A family failed and was quarantined; all others continue."""


def described(error: BaseException) -> str:
    """An exception as one line of text."""
    if isinstance(error, Error):
        return " ".join(f"{error.message} {error.hint or ''}".split())
    text = " ".join(str(error).split())
    name = "MemoryError" if isinstance(error, MemoryError) else type(error).__name__
    return f"{name}: {text}" if text else name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the names closest to `name`, or with the first known names if none is close."""
    names = sorted(set(known))
    lowered = {n.lower(): n for n in names}
    close = [lowered[c] for c in get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.6)]
    if close:
        return f"Did you mean {' or '.join(repr(c) for c in close)}?"
    if not names:
        return "None exists yet."
    shown = ", ".join(repr(n) for n in names[:8])
    return f"There is {shown}{' and more' if len(names) > 8 else ''}."
