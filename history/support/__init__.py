"""Parts that every other package may use, and that do not know about messages.

=====================  ==============================================================================
``faces.py``           loads public names when somebody first uses them
``namesakes.py``       finds files of users that have the name of one of our packages
``user_code.py``       which exceptions are failures of user code
``rendering.py``       shows exceptions as text
``redaction.py``       takes values such as card numbers out of texts
``urls.py``            quotes URLs in errors without passwords
``references.py``      reads secrets from the environment or files
``encryption.py``      encrypts what is stored, with the keys of a file or variable
``private_files.py``   makes files that only one user can read
``open_files.py``      notices that a file was deleted or replaced while it is open
``spoilt.py``          skips records that cannot be read
``paging.py``          walks through much, a part at a time: pages of a store, pieces of a sequence
``outage.py``          logs when background work begins to fail, and when it works again
``tls.py``             warns of lines without TLS, and recognizes TLS errors that last
``forks.py``           handles connections, threads and locks in forked children
``loops.py``           detects a running event loop, and keeps one value per loop
``fair.py``            a semaphore for threads that serves them in the order in which they came
=====================  ==============================================================================
"""
