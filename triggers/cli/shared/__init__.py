"""What several commands share: options, output, logs, loading of a user's modules."""
