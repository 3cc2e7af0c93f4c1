"""Charts of the last hour and the last day, from the steps that consumers add to their history.

``reading.py`` reads the steps beside the pages, and ``series.py`` makes values of equal periods of them.
``drawing.py`` places these values in a picture, which a template writes as SVG.
"""
