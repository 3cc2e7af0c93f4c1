"""What does as the protocol says: reads, sends, applies."""
