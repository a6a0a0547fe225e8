"""Muster on one machine: embedded Kafka and PostgreSQL, the process keeper, and the demo."""
