"""The commands of the command line.

running   `eddyline run`: starts Spark and the pipeline, watches it, stops it in order
before_spark  the checks that run before Spark is started
display   the figures of a running pipeline, on a screen or as lines
query     `eddyline query …` and `eddyline late`: their arguments and options
explain   the output of `eddyline query explain`
catalog   the implementation of `query`, on the catalog's log, without Spark
"""
