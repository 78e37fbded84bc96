"""`eddyline sink …`: shows and compacts the folder of a file sink."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eddyline.commands.query import _printing

app = typer.Typer(help="Looks at and compacts the folder of a file sink.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="PATH", help="The path of the sink.", exists=True, file_okay=False)]
KEPT = 10  # micro-batches whose files are kept by default: readers may be reading them


@app.command()
def info(path: Folder) -> None:
    """Shows whose rows are in a sink's folder, and up to which micro-batch they are complete."""
    import pyarrow as pa

    from eddyline.delivery.marks import folders_of, parts_of
    from eddyline.delivery.reading import require_mark

    with _printing() as printer:
        mark = require_mark(path)
        printer.line(
            f"sink {mark.sink} of the checkpoint {mark.checkpoint}, complete up to micro-batch {mark.complete}"
        )
        rows = []
        for folder in folders_of(path):
            parts = parts_of(folder)
            size = sum(p.path.stat().st_size for p in parts)
            if parts:
                name = "." if folder == path else folder.name
                rows.append({"folder": name, "files": len(parts), "bytes": size, "last batch": parts[-1].batch})
        if rows:
            printer.table(pa.Table.from_pylist(rows))


@app.command()
def compact(
    path: Folder,
    keep: Annotated[
        int, typer.Option(min=1, help="The last micro-batches whose files stay as they are, for readers behind.")
    ] = KEPT,
) -> None:
    """Merges the files of old micro-batches, while the pipeline runs or not. Each row stays there once."""
    from eddyline.delivery import compaction
    from eddyline.delivery.reading import require_mark

    with _printing() as printer:
        # Spark may still replay the last complete micro-batch.
        result = compaction.compact(path, require_mark(path).complete - keep, "full")
        printer.line(f"{result.before:,} files of micro-batches before the last {keep:,} are {result.after:,} now.")
