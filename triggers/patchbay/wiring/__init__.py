"""The file that wires components: TOML and the original's XML, read, checked and written."""
