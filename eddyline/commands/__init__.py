"""The commands around a pipeline: what a person types and sees.

running   `eddyline run`: starts Spark and the pipeline, watches it, stops it in order
before_spark  what can be found wrong before Spark is started
display   the figures of a running pipeline, on a screen or as lines
query     `eddyline query …` and `eddyline late`: their words and options
explain   what `eddyline query explain` says
catalog   what these do, on the catalog's log alone: no Spark is started
"""
