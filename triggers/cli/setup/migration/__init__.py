"""``doubtless migrate``: triggers of another system as a module, a configuration and a report.

``idata.py`` reads the XML of Integration Server's packages. ``jms_triggers.py`` finds the JMS triggers in
them. ``mapping.py`` says what each property is here: the same, safer, to be checked or missing.
``filters.py`` translates local filters. ``writing.py`` renders the files, and ``commands.py`` is the command.
"""
