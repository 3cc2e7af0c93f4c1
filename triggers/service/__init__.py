"""The user's function: its settings, how it is called, what its failures mean."""
