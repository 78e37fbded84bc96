"""The real command in a process of its own, with a home directory that nobody else uses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "eddyline.cli"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
    state = tmp_path / "state"
    return {**kept, "XDG_STATE_HOME": str(state), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "PYTHONUTF8": "1"}


@pytest.fixture
def run(environ: dict[str, str]) -> Run:
    def run(*args: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *args],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**environ, **more},
            timeout=300,
        )

    return run
