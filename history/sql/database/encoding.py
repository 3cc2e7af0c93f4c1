"""Databases of PostgreSQL whose encoding does not have every character.

Sessions speak UTF-8, whatever the database: one of SQL_ASCII keeps the bytes as they are, and others refuse a
character that they do not have. JSON documents are written without any: they are kept whole everywhere.
"""

import json
import re

from history.sql.statements.dialects import statement

# In what the database keeps text.
ENCODING = statement(postgresql="SELECT current_setting('server_encoding')")

#: The encodings that keep every character.
WHOLE = {"UTF8", "SQL_ASCII"}

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def in_ascii(document: str) -> str:
    """Return a JSON document with all that is not ASCII escaped."""
    return document if document.isascii() else _NOT_ASCII.sub(_escaped, document)


def _escaped(some: re.Match[str]) -> str:
    return json.dumps(some[0])[1:-1]
