"""What is kept aside: where, how it is decided about, and what closes by itself."""
