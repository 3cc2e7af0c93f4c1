"""The pure core of a link, with no database and no carrier that touches anything."""
