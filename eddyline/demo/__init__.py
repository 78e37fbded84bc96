"""The demo: generated trades and quotes against very many alerts, which are registered and dropped all the time.

`on_spark` is the job as users run it; `in_process` the same without Spark. Both use `market` and `families`.
"""
