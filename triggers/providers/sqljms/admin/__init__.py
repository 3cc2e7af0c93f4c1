"""The views and actions of an operator: ``doubtless sqljms``.

``admin.py`` has the operations, ``steps.py`` their parts inside a transaction, ``views.py`` the objects to
show, ``statements.py`` the SQL.
"""
