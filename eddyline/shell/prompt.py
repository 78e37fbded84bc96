"""The shell on a terminal: statements of several lines, a history, and completion of names with Tab."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.lexers import PygmentsLexer

from eddyline import types as t
from eddyline.aggregates import AGGREGATES
from eddyline.errors import Error
from eddyline.local.connection import Connection
from eddyline.shell.commands import COMMANDS, Quit
from eddyline.shell.interpreter import Interpreter
from eddyline.shell.pieces import InputPiece, is_complete, is_empty

PROMPT = "eddyline> "
MORE = "     ...> "
QUERIES = 1000  # names of queries offered per family

KEYWORDS = tuple(
    re.findall(
        r"\w+",
        """
        ALL ANALYZE AND AS BETWEEN BY CONTINUOUS CREATE DELAY DELETE DISTINCT DROP EXCEPT EXISTS EXPLAIN FAMILIES
        FAMILY FOR FROM FUNCTIONS GROUP HAVING IF IN INSERT INTERSECT INTERVAL INTO IS KEY LIKE MATERIALIZED NON NOT NOW
        NULL OF ON OPTIONS OR PRIMARY QUERIES QUERY RANGE REFRESH RETROACTIVE ROWS SECONDS SELECT SET SHOW SINK SINKS
        STREAM STREAMS TABLE TABLES UNION UPDATE USING VALUES VIEW VIEWS WATERMARK WHERE WITH WITHIN
        """,
    )
)


def interact(interpreter: Interpreter, title: str) -> None:
    """Reads and runs until the user leaves. Ctrl-C drops the input, or stops a statement; Ctrl-D leaves."""
    prompt = new_prompt(interpreter.db, history(os.environ))
    interpreter.printer.line(title, "bold")
    interpreter.printer.line("End a statement with a semicolon; .help lists the commands; Ctrl-D leaves.", "dim")
    while True:
        try:
            text = prompt.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            if not is_empty(text):
                interpreter.run(InputPiece(text, 1))
        except Quit:
            return
        except Error as e:
            interpreter.printer.error(e)
        except KeyboardInterrupt:
            interpreter.printer.line("Stopped. What ran may have been applied in part.", "bold red")
        except Exception as e:  # a fault of Eddyline must not end the session
            interpreter.printer.line("".join(traceback.format_exception(e)), "dim")
            interpreter.printer.line(f"This is a fault in Eddyline: {type(e).__name__}: {e}", "bold red")


def new_prompt(db: Connection, past: History) -> PromptSession[str]:
    more_lines = False

    def wants_more_lines() -> bool:
        """Whether Enter continues the typed statement on another line. While the history is searched, the typed line is
        the search text, so the answer stays what it was before the search."""
        nonlocal more_lines
        if not get_app().layout.is_searching:
            more_lines = not is_ready(prompt.default_buffer.text)
        return more_lines

    prompt: PromptSession[str] = PromptSession(
        PROMPT,
        multiline=Condition(wants_more_lines),
        prompt_continuation=MORE,
        history=past,
        lexer=PygmentsLexer.from_filename("shell.sql"),
        completer=Names(lambda: names(db)),
        complete_while_typing=False,
        enable_open_in_editor=True,
    )
    return prompt


def is_ready(text: str) -> bool:
    """Whether Enter runs the text rather than beginning another line."""
    return not text.strip() or is_complete(text)


def history(environ: Mapping[str, str]) -> History:
    """The history, in the user's state directory and readable only by the user: statements may contain secrets.

    It is kept in memory if that directory cannot be written.
    """
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".local" / "state"
    path = Path(home) / "eddyline" / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(file, 0o600)  # an older version may have created it
        finally:
            os.close(file)
    except OSError:
        return InMemoryHistory()
    return _Kept(str(path))


class _Kept(FileHistory):
    """A history in a file; a line that cannot be written is kept in memory until the shell ends."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


class Names(Completer):
    """Completes the word before the cursor: a dot command where a statement begins, otherwise keywords and names."""

    def __init__(self, known: Callable[[], Iterable[str]]) -> None:
        self._known = known

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        keywords = sorted([*KEYWORDS, *(name.upper() for name in AGGREGATES)])
        if before.startswith(".") and " " not in before:
            word, known = before, iter(COMMANDS)
        else:
            word, known = document.get_word_before_cursor(), iter([*self._known(), *keywords])
        for name in known:
            if word and name.lower().startswith(word.lower()):
                text = name.lower() if name in keywords and word.islower() else name
                yield Completion(text, start_position=-len(word))


def names(db: Connection) -> list[str]:
    """Everything in the catalog that a statement can name, and the types."""
    names: dict[str, None] = {}
    for relation in (*db.catalog.streams, *db.catalog.tables):
        names.update(dict.fromkeys([relation.name, *(f.name for f in relation.fields)]))
    for other in (*db.catalog.views, *db.catalog.functions, *db.catalog.sinks):
        names[other.name] = None
    for family in db.registry:
        if family.kind == "declared":
            names[family.name] = None
        names.update(dict.fromkeys(family.queries.rows().names.slice(0, QUERIES).to_pylist()))
    return [*sorted(names), *t.BY_NAME]
