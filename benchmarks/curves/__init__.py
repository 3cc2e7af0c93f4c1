"""How speed changes as something grows: entries, batches, processes, bodies; as a table and as a picture."""
