"""The main job on generated data: trades and quotes against very many alerts, some of which come and go all the time.

`on_spark` is the job as users run it; `in_process` the same without Spark. Both take `market` and `families`.
"""
