"""The simulator: bugs that users write into their triggers, and services without bugs."""
