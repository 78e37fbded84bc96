"""The command line: what `eddyline …` does. Each command parses its options here and is implemented elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import eddyline
from eddyline.commands import checkpoint as checkpoint_commands
from eddyline.commands import query
from eddyline.commands import sink as sink_commands

app = typer.Typer(
    help="Very many standing SQL queries over streams, run as one pipeline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    app()


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"eddyline {eddyline.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


@app.command()  # one parameter for each option of the command
def run(
    script: Annotated[
        Path, typer.Argument(help="The file of statements that makes the pipeline.", exists=True, dir_okay=False)
    ],
    checkpoint: Annotated[
        Path, typer.Option("--checkpoint", metavar="DIR", help="Where its state is kept; the next run goes on from it.")
    ],
    once: Annotated[bool, typer.Option("--once", help="End when what is there has been processed.")] = False,
    master: Annotated[str, typer.Option(metavar="URL", help="Where Spark runs.")] = "local[*]",
    trigger: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="Time between micro-batches, as in '1 second'.")
    ] = None,
    buckets: Annotated[
        int | None, typer.Option(min=1, help="Parts that state is split into; fixed by the first run. [cores]")
    ] = None,
    clock: Annotated[
        Literal["min", "max"] | None,
        typer.Option(
            help="Which stream of a query leads its time, the slowest or the fastest; fixed by the first run."
        ),
    ] = None,
    on_bad_rows: Annotated[
        Literal["set-apart", "stop"], typer.Option(help="What happens with rows that cannot be read.")
    ] = "set-apart",
    on_error: Annotated[
        Literal["quarantine", "null"], typer.Option(help="What happens with a query that fails on some row.")
    ] = "quarantine",
    allow_functions: Annotated[
        bool, typer.Option("--allow-functions", help="Trust and run the Python functions that the checkpoint holds.")
    ] = False,
    durability: Annotated[
        Literal["fsync", "none"],
        typer.Option(help="Whether files of sinks are on the disk before they are announced."),
    ] = "fsync",
    dead_letter_limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="MB", help="Size of the rows set apart of a stream; the oldest go first. [none]"),
    ] = None,
    allow_option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An option of sources or sinks that may load code; may be repeated."),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve figures to Prometheus; 0 takes a free port.")
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="The address to serve them at.")] = "127.0.0.1",
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's log, and its errors in full.")] = False,
) -> None:
    """Runs a pipeline on Spark until Ctrl-C."""
    from eddyline.commands import running

    wrong = [c for c in conf or [] if "=" not in c]
    if wrong:
        raise typer.BadParameter(f"--conf takes KEY=VALUE, not {wrong[0]!r}.")
    options = running.Options(
        script,
        checkpoint,
        "once" if once else "on",
        master,
        trigger,
        buckets,
        clock,
        "stop" if on_bad_rows == "stop" else "set apart",
        on_error,
        "approve" if allow_functions else "refuse",
        tuple(allow_option or ()),
        None if metrics_port is None else (metrics_host, metrics_port),
        {key: value for key, _, value in (c.partition("=") for c in conf or [])},
        "nothing" if quiet else "progress",
        "all" if verbose else "quiet",
        durability,
        None if dead_letter_limit is None else dead_letter_limit * 1_000_000,
    )
    raise typer.Exit(running.run(options))


app.add_typer(query.app, name="query")
app.add_typer(checkpoint_commands.app, name="checkpoint")
app.add_typer(sink_commands.app, name="sink")
app.command()(query.late)


@app.command()
def sql(
    script: Annotated[
        Path | None, typer.Argument(help="A file of statements to run.", exists=True, dir_okay=False, readable=True)
    ] = None,
    execute: Annotated[
        list[str] | None, typer.Option("-e", "--execute", metavar="SQL", help="Statements to run; may be repeated.")
    ] = None,
    open_: Annotated[
        Path | None, typer.Option("--open", metavar="DIR", help="Go on from what .save wrote to this directory.")
    ] = None,
    clock: Annotated[
        Literal["min", "max"] | None,
        typer.Option(help="Which stream of a query leads its time: the slowest (min) or the fastest (max)."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows of a result to show; 0 shows all.")] = 40,
) -> None:
    """An in-process SQL shell; runs a script, -e, or what is piped in, and otherwise asks."""
    from eddyline.shell.interpreter import Interpreter
    from eddyline.shell.printing import Printer
    from eddyline.shell.prompt import interact

    asks = script is None and not execute and sys.stdin.isatty() and sys.stdout.isatty()
    printer = Printer.terminal(limit) if asks else Printer.plain(limit)
    try:
        interpreter = Interpreter(eddyline.connect(open_, clock=clock), printer)
    except eddyline.Error as e:
        printer.error(e)
        raise typer.Exit(1) from None
    if asks:
        interact(interpreter, f"Eddyline {eddyline.__version__}")
        return
    if script is not None:
        with script.open(encoding="utf-8") as lines:
            finish(interpreter.run_script(lines, script.name))
    for text in execute or []:
        finish(interpreter.run_script(text.splitlines(keepends=True), "-e"))
    if script is None and not execute:
        finish(interpreter.run_script(sys.stdin, "the input"))


def finish(went_well: bool) -> None:
    if not went_well:
        raise typer.Exit(1)


@app.command()
def doctor(
    warm: Annotated[
        bool, typer.Option("--warm", help="Compile kernels and measure costs now, not when they are first needed.")
    ] = False,
) -> None:
    """Checks what this machine offers, and says how to repair what is missing."""
    from eddyline.doctor import report

    findings = report()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
    for name in ("what", "found", "status", "remedy"):
        table.add_column(name, overflow="fold")
    for f in findings:
        style = "green" if f.status == "ok" else "bold red"
        table.add_row(Text(f.name), Text(f.found), Text(f.status, style), Text(f.remedy))
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=1000)
    console.print(table)
    bad = [f.name for f in findings if f.status != "ok"]
    if warm and not {*bad} - {"Java"}:  # only Spark needs Java
        from eddyline.commands import warming

        warming.warm(console, spark="Java" not in bad)
    if bad:
        console.print(f"\nTo mend: {', '.join(bad)}.", style="bold red")
        raise typer.Exit(1)
    console.print("\nAll is there.", style="green")


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="Which one; without a name, all are listed.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where its figures go; by default benchmarks/out of the checkout."),
    ] = None,
    update_docs: Annotated[
        bool, typer.Option("--update-docs", help="Rewrite the figures that the documentation cites.")
    ] = False,
) -> None:
    """Reproduces a figure: a table here, a picture and JSON in a folder. Runs in a source checkout."""
    from eddyline.commands.bench import benchmarks, run
    from eddyline.shell.printing import Printer

    if out is not None and update_docs:
        raise typer.BadParameter("--update-docs and --out name two places: give one of them.")
    if name is None:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
        table.add_column("benchmark", no_wrap=True)
        table.add_column("what it shows", overflow="fold")
        for known, what in benchmarks().items():
            table.add_row(Text(known), Text(what))
        Console(highlight=False).print(table)
        return
    try:
        finish(run(name, out, update_docs))
    except eddyline.Error as e:
        Printer.plain(0).error(e)
        raise typer.Exit(1) from None


@app.command()
def demo(
    queries: Annotated[int, typer.Option(min=10, help="Alerts to register.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds to run after the first results.")] = 60.0,
    rate: Annotated[float, typer.Option(min=1, help="Rows of each of the two streams in a second.")] = 500.0,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where all that it reads and writes is kept; a new one.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same data and the same queries.")] = 1,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Without Spark, as fast as one process goes.")
    ] = False,
    rows: Annotated[int, typer.Option(min=1, help="Rows after which it ends, with --in-process.")] = 200_000,
) -> None:
    """Generated trades and quotes against 100,000 alerts, which are added and dropped, on Spark, with live progress."""
    if in_process:
        from eddyline.demo.in_process import show

        show(queries, rows, seconds, seed)
        return
    from eddyline.demo.on_spark import run
    from eddyline.shell.printing import Printer

    try:
        code = run(queries, seconds, rate, folder, seed)
    except eddyline.Error as e:
        Printer.plain(0).error(e)
        code = 1
    raise typer.Exit(code)


if __name__ == "__main__":
    main()
