"""The client queue: messages that wait on disk until the provider is back."""
