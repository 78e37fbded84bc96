"""`eddyline checkpoint …`: its words and options. What it does is in `checkpoints` and in the layer `spark`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eddyline.commands.query import _printing

app = typer.Typer(help="Looks at, checks, copies and moves the checkpoint of a pipeline.", no_args_is_help=True)

Checkpoint = Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="The folder of the checkpoint.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Remove rows from sinks without asking.")]


@app.command()
def rewind(checkpoint: Checkpoint, yes: Yes = False) -> None:
    """Removes from file sinks the rows of runs that the checkpoint does not know, after a backup was restored."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        checkpoints.rewind(printer, checkpoint, yes)
