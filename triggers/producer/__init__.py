"""Sending: ``producer.py`` with its client queue in ``queue/``."""
