"""The addresses for programs, below ``/api/``, with the roles and the audit trail of the pages.

``routes.py`` has one table, by which the application routes them. ``document.py`` makes the OpenAPI document
from the same table. ``operation.py`` is a row of it, and ``schemas.py`` has the forms and answers.
"""
