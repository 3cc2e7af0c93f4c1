"""What carries the messages of links: directories, a table, any provider, or memory that loses some."""
