"""The saved state of a family's operators: their tables, by the operator's place in the plan and a name."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from eddyline.errors import StateError
from eddyline.operators.base import Operator
from eddyline.operators.evaluate import Functions
from eddyline.state.pages import Saved, as_table


def save_operators(root: Operator) -> dict[str, Saved]:
    return {f"{i}.{name}": t for i, o in enumerate(root.walk()) for name, t in o.save().items()}


def load_operators(root: Operator, saved: Mapping[str, Saved], functions: Functions, family: str) -> None:
    """Restores what `save_operators` returned, in new operators."""
    for operator, own in _matched(root, saved, family):
        operator.load(own, functions)


def _matched(root: Operator, saved: Mapping[str, Saved], family: str) -> list[tuple[Operator, dict[str, pa.Table]]]:
    """The saved tables of each operator with state; stateful operators have the same order in every version."""
    tables: dict[int, dict[str, pa.Table]] = {}
    for key, table in saved.items():
        number, _, name = key.partition(".")
        if name:
            tables.setdefault(int(number), {})[name] = as_table(table)
    walked = root.walk()
    keeping = [i for i, o in enumerate(walked) if type(o).save is not Operator.save]
    numbers = keeping if len(tables) == len(keeping) else sorted(tables)
    if not set(numbers) <= set(keeping):
        raise StateError(
            f"The state of family {family!r} was saved by a version that runs it in another way.",
            hint="Use the version that saved it, or start without the saved state.",
        )
    return [(walked[i], table) for i, (_, table) in zip(numbers, sorted(tables.items()), strict=True)]
