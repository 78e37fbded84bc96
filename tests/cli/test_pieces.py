"""Where one piece of input ends and the next begins."""

from __future__ import annotations

import pytest

from eddyline.shell.pieces import InputPiece, is_complete, pieces


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- and why\n", True),
        ("SELECT 1;\n/* a; */", True),
        (".help", True),
        ("SELECT 1", False),
        ("SELECT 1; SELECT 2", False),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("-- a comment;", False),
        ("/* open;", False),
        ("", False),
    ],
)
def test_a_text_is_complete_when_its_last_statement_has_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_pieces_are_whole_statements_or_commands_and_know_their_lines() -> None:
    text = "SELECT\n  1;\n-- note\n.late s\nSELECT ';\n.stats'; SELECT 2;\n\nSELECT 3"
    assert list(pieces(text.splitlines(keepends=True))) == [
        InputPiece("SELECT\n  1;\n", 1),
        InputPiece(".late s\n", 4),
        InputPiece("SELECT ';\n.stats'; SELECT 2;\n", 5),
        InputPiece("\nSELECT 3", 7),
    ]


def test_a_piece_is_given_out_before_the_next_line_is_read() -> None:
    read: list[str] = []

    def lines() -> object:
        for line in ("SELECT 1;\n", "SELECT 2;\n"):
            read.append(line)
            yield line

    first = next(pieces(lines()))  # type: ignore[arg-type]
    assert (first.text, read) == ("SELECT 1;\n", ["SELECT 1;\n"])
