"""What an operator sees and does: ``doubtless sqljms``.

``admin.py`` has the operations, ``steps.py`` what they are made of inside a transaction, ``views.py`` what
is shown, ``statements.py`` the SQL.
"""
