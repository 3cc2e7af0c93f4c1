"""Pictures of every page of the dashboard, for the documentation: ``python -m tests.acceptance.pictures``."""
