"""Kafka without Spark's connector: a Python data source and an output, both over librdkafka."""
