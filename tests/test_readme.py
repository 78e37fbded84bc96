"""The example in the README runs as it stands and prints what a reader would expect."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def example() -> str:
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_is_short_and_runs() -> None:
    code = example()
    assert len(code.strip().splitlines()) <= 11
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("['ann', 'bob'] [{'op': '+'") and "'price': 18.0" in first
    assert second.endswith("[{'n': 1}]") and "'op': '-'" in second and "'op': '+'" in second
