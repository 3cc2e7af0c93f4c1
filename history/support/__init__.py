"""What every floor may use, and what knows nothing of messages.

``faces.py`` loads public names when they are asked for; ``forks.py`` keeps connections out of forked
children; ``references.py`` reads secrets from the environment or files; ``private_files.py`` makes files for
one user alone; ``rendering.py`` shows exceptions, and ``user_code.py`` says which are failures of user code.
"""
