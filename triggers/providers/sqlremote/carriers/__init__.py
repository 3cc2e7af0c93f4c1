"""Carriers for the messages of links.

``carrier.py`` is the protocol, and ``opening.py`` goes from a URL to one. ``directory.py`` carries by files,
``table.py`` by a SQL table, ``over_provider.py`` by any provider.
"""
