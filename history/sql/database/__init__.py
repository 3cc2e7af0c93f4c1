"""Connections: engines of both dialects, errors, probes, forks."""
