"""The pages, a module each: the data that it reads, and the actions that it offers."""
