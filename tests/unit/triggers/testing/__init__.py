"""The simulator: bugs that users plant in their triggers, and services that have none."""
