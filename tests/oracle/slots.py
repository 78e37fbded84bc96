"""The constants of random joins: slots in the text of a shape, filled with literals or with parameters.

`$i` is a whole number, `$l` and `$h` are a low and a high one, `$d` is a double, `$p` a pattern, `$t` a text, `$w` the
seconds of a window and `$m` its number of rows. With literals a shape is a query, with parameters a family.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

from tests.oracle.multi_joins import Shape

_SLOT = re.compile(r"\$[ilhdptwm]")
_TYPES = {"i": "INT", "l": "INT", "h": "INT", "d": "DOUBLE", "p": "STRING", "t": "STRING", "w": "INT", "m": "INT"}


def constant(rnd: Random, slot: str) -> Any:
    match slot:
        case "i":
            return rnd.choice([-1, 0, 0, 1, 1, 2, 3])
        case "l":
            return rnd.choice([-2, -1, 0, 0, 1])
        case "h":
            return rnd.choice([0, 1, 1, 2, 3])
        case "d":
            return rnd.choice([0.0, 0.5, 1.0, 2.25, -1.0])
        case "p":
            return rnd.choice(["a%", "%b", "ab", "%", "_", "a_%"])
        case "t":
            return rnd.choice(["a", "ab", "b", ""])
        case "w":
            return rnd.choice([0, 1, 2, 3, 5, 5, 8])
    return rnd.randint(1, 3)


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def filled(rnd: Random, shape: Shape) -> str:
    """A query of a shape."""
    return _SLOT.sub(lambda found: literal(constant(rnd, found[0][1])), shape.text)


def family(shape: Shape) -> tuple[str, str]:
    """The parameters and the query of a family; the shape has at least one slot."""
    slots: list[str] = []

    def name(found: re.Match[str]) -> str:
        slots.append(found[0][1])
        return f":{slots[-1]}{len(slots)}"

    text = _SLOT.sub(name, shape.text)
    return ", ".join(f"{s}{i} {_TYPES[s]}" for i, s in enumerate(slots, 1)), text


def member(rnd: Random, params: str) -> dict[str, Any]:
    """Constants of a query of a family; windows are never NULL."""
    names = [p.split()[0] for p in params.split(", ")]
    return {n: None if n[0] not in "wm" and rnd.random() < 0.04 else constant(rnd, n[0]) for n in names}
