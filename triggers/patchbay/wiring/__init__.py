"""The file that wires components.

``model.py`` is what it says, ``toml_reader.py`` reads it, ``checks.py`` refuses what cannot work,
``lines.py`` finds the line of an error. ``xml_reader.py`` reads the original's XML, with ``xml_elements.py``
(what may stand where) and ``xml_combining.py`` (several files as one); ``toml_writer.py`` writes it as TOML.
"""
