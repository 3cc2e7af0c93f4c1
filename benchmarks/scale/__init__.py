"""Computes the servers for a load: from measured costs, arithmetic, and a simulation of many shards."""
