"""Deliveries that no provider of ours would send, made from a seed and sent past the providers."""
