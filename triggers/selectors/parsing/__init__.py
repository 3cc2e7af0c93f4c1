"""From the text of a condition to its tree."""
