"""The file that wires components.

``model.py`` is its content, ``toml_reader.py`` reads it and finds the line of an error, and ``checks.py``
refuses what cannot work. ``xml_reader.py`` reads ATG's XML, several files as one, with ``xml_elements.py``
(the allowed elements).
"""
