"""Kafka without Spark's connector: a source of Spark's in Python, and an output, both over librdkafka."""
