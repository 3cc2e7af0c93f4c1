"""What this project costs, measured beside what it cannot be faster than."""
