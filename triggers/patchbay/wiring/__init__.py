"""The file that wires components.

``model.py`` is its content, ``toml_reader.py`` reads it, ``checks.py`` refuses what cannot work, and
``lines.py`` finds the line of an error. ``xml_reader.py`` reads ATG's XML, with ``xml_elements.py`` (the
allowed elements) and ``xml_combining.py`` (several files as one); ``toml_writer.py`` writes it as TOML.
"""
