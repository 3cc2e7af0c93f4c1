"""PostgreSQL databases with an encoding that lacks some characters.

Sessions always use UTF-8. A SQL_ASCII database keeps the bytes as they are; others refuse a character that
their encoding lacks. JSON documents are written without such characters, so they stay whole everywhere.
"""

import json
import re

from history.sql.statements.dialects import statement

# The encoding in which the database keeps text.
ENCODING = statement(postgresql="SELECT current_setting('server_encoding')")

#: The encodings that keep every character.
WHOLE = {"UTF8", "SQL_ASCII"}

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def in_ascii(document: str) -> str:
    """Return a JSON document in which every character outside ASCII is escaped."""
    return document if document.isascii() else _NOT_ASCII.sub(_escaped, document)


def _escaped(some: re.Match[str]) -> str:
    return json.dumps(some[0])[1:-1]
