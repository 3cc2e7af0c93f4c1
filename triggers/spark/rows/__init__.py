"""Rows as messages, and back."""
