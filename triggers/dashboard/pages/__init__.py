"""The pages, a module each: what it reads, and what it lets people do."""
