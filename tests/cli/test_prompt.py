"""The shell on a terminal, driven through a pseudo-terminal: lines, history, errors, leaving."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory

import eddyline
from eddyline.shell import prompt
from tests.cli.conftest import COMMAND, ROOT

STREAM = "CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;"
PATIENCE = 40.0  # seconds until a text that does not come is given up
PROMPT, MORE = prompt.PROMPT.strip(), prompt.MORE.strip()  # spaces may be drawn by moving the cursor
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])")


class Terminal:
    """A shell behind a pseudo-terminal: `type` keys, then `expect` text on the screen."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        command = [*COMMAND, "sql"]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environ, start_new_session=True
        )
        os.close(slave)
        self.unread = ""
        self.raw = ""

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def expect(self, text: str) -> str:
        """Waits until the text appears after all that was expected before; gives what came up to its end."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.unread:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come; there was {self.unread!r}"
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the other side has closed
                data = b""
            assert data, f"the shell ended without {text!r}; there was {self.unread!r}"
            self.raw += data.decode(errors="replace")
            self.unread += ESCAPES.sub("", data.decode(errors="replace")).replace("\r", "")
        end = self.unread.index(text) + len(text)
        found, self.unread = self.unread[:end], self.unread[end:]
        return found

    def leave(self, keys: str = "\x04") -> int:
        self.type(keys)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(environ: dict[str, str]) -> Iterator[Terminal]:
    opened = Terminal(environ)
    yield opened
    opened.close()


def test_a_statement_may_take_several_lines_and_runs_at_its_semicolon(terminal: Terminal) -> None:
    terminal.expect(PROMPT)
    terminal.type(f"{STREAM}\r")
    terminal.expect("ok · ")
    terminal.expect(PROMPT)
    terminal.type("SHOW\r")
    terminal.expect(MORE)
    terminal.type("STREAMS;\r")
    assert "watermark" in terminal.expect("1 row · ")
    assert re.match(r"[\d.]+ m?s\n", terminal.expect(PROMPT))
    assert terminal.leave() == 0


def test_errors_are_red_with_their_place_and_the_shell_goes_on(terminal: Terminal) -> None:
    terminal.expect(PROMPT)
    terminal.type("SELECT x FROM nowhere;\r")
    terminal.expect("Error: ")
    shown = terminal.expect(PROMPT)
    assert "at line 1, column 15:" in shown and "^^^^^^^" in shown
    assert "Traceback" not in shown and "\x1b[1;31mError" in terminal.raw
    terminal.type("SHOW TABLES;\r")
    terminal.expect("0 rows")
    terminal.expect(PROMPT)
    assert terminal.leave(".quit\r") == 0


def test_ctrl_c_drops_the_input_and_ctrl_d_leaves(terminal: Terminal) -> None:
    terminal.expect(PROMPT)
    terminal.type("SELECT a lot of nonsense\r")
    terminal.expect(MORE)
    terminal.type("\x03")
    terminal.expect(PROMPT)
    terminal.type("SHOW STREAMS;\r")
    terminal.expect("0 rows")
    terminal.expect(PROMPT)
    assert terminal.leave() == 0


def test_history_survives_the_shell(environ: dict[str, str], terminal: Terminal, tmp_path: Path) -> None:
    terminal.expect(PROMPT)
    terminal.type("SHOW\rTABLES;\r")
    terminal.expect("0 rows")
    terminal.expect(PROMPT)
    assert terminal.leave() == 0
    assert (tmp_path / "state" / "eddyline" / "history").read_text().count("SHOW") == 1
    again = Terminal(environ)
    try:
        again.expect(PROMPT)
        again.type("\x10\r")  # Ctrl-P: the entry before
        again.expect("0 rows")
    finally:
        again.close()


def test_ctrl_r_finds_what_was_typed_before(terminal: Terminal) -> None:
    terminal.expect(PROMPT)
    for statement in ("SHOW TABLES;", "SHOW\rSTREAMS;", "SHOW QUERIES;"):
        terminal.type(f"{statement}\r")
        terminal.expect("0 rows")
        terminal.expect(PROMPT)
    for sought, found in (("TAB", "SHOW TABLES;"), ("STRE", "STREAMS;")):
        terminal.type("\x12")
        terminal.expect("(reverse-i-search)")
        terminal.type(sought)
        terminal.expect(found)
        terminal.type("\r\r")
        terminal.expect("0 rows")
        terminal.expect(PROMPT)
    assert "Traceback" not in terminal.raw and "Unhandled" not in terminal.raw
    assert terminal.leave() == 0


@pytest.mark.parametrize("typed", ["", "SELECT half\rof "])
def test_ctrl_c_ends_a_search_in_the_history_and_the_shell_goes_on(terminal: Terminal, typed: str) -> None:
    terminal.expect(PROMPT)
    terminal.type("SHOW TABLES;\r")
    terminal.expect("0 rows")
    terminal.expect(PROMPT)
    terminal.type(typed)
    terminal.type("\x12")
    terminal.expect("search")
    terminal.type("TAB")
    terminal.expect("TABLES;")
    terminal.type("\x03")
    terminal.type("\x03")
    terminal.type("SHOW QUERIES;\r")
    terminal.expect("0 rows")
    terminal.expect(PROMPT)
    assert "Unhandled" not in terminal.raw
    assert terminal.leave() == 0


def test_the_history_is_for_the_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "eddyline" / "history"
    for _ in range(2):
        prompt.history({"XDG_STATE_HOME": str(tmp_path)})
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o644)


def test_history_is_kept_in_memory_where_the_directory_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert isinstance(prompt.history({"XDG_STATE_HOME": str(tmp_path / "file")}), InMemoryHistory)
    kept = prompt.history({"HOME": str(tmp_path)})
    assert isinstance(kept, FileHistory)
    assert kept.filename == str(tmp_path / ".local" / "state" / "eddyline" / "history")


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        (".s", [".snapshot", ".stats", ".save"]),
        ("SHOW STR", ["STRING", "STREAM", "STREAMS"]),
        ("show str", ["STRING", "stream", "streams"]),
        ("SELECT * FROM pric", ["price", "prices"]),
        ("SELECT price FROM prices WHERE ", []),
        ("EXPLAIN myq", ["myQuery"]),
    ],
)
def test_tab_offers_commands_keywords_and_names_of_the_catalog(text: str, offered: list[str]) -> None:
    db = eddyline.connect()
    db.execute("CREATE TABLE prices (price INT)")
    db.execute("CREATE CONTINUOUS QUERY myQuery AS SELECT price FROM prices")
    completer = prompt.Names(lambda: prompt.names(db))
    found = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
    assert [completion.text for completion in found] == offered
