"""``doubtless migrate``: triggers of another system as a module, a configuration and a report.

``jms_triggers.py`` reads the XML of Integration Server's packages, and finds the JMS triggers in them.
``mapping.py`` says what each property is here: the same, safer, to be checked or missing. ``filters.py``
translates local filters. ``statements.py`` reads the SQL of SQL Remote, and renders its links. ``atg.py``
makes a wiring, its components and a report from the XML of ATG's Patch Bay. ``commands.py`` has the commands,
and renders the files of triggers. ``reporting.py`` has the parts that several migrations share.
"""
