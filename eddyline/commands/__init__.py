"""The commands of the command line; `cli.py` declares the others and imports these when they are called.

before_spark  the checks of `eddyline run` that precede the start of Spark
bench         `eddyline bench`: runs the benchmarks of a source checkout
checkpoint    `eddyline checkpoint …`
display       the figures of a running pipeline, on a screen or as lines
explain       the output of `eddyline query explain`
query         `eddyline query …` and `eddyline late`
running       `eddyline run`: starts Spark and the pipeline, watches it, stops it in order
sink          `eddyline sink …`
warming       `eddyline doctor --warm`, which runs the `workloads`
"""
