"""What every floor may use, and what knows nothing of messages.

=====================  ==============================================================================
``faces.py``           loads public names when they are asked for
``namesakes.py``       finds files of users that have the name of a package of ours
``user_code.py``       which exceptions are failures of user code
``rendering.py``       shows exceptions as text
``redaction.py``       takes values such as card numbers out of texts
``urls.py``            quotes URLs in errors without passwords
``references.py``      reads secrets from the environment or files
``encryption.py``      encrypts what is stored, with the keys of a file or variable
``private_files.py``   makes files for one user alone
``open_files.py``      notices that a file was deleted or replaced while it is open
``spoilt.py``          passes over records that cannot be read
``paging.py``          walks through what a store holds, a page at a time
``outage.py``          has work beside its callers say that it fails, and that it goes on again
``tls.py``             what stays wrong with TLS until somebody corrects it
``forks.py``           what becomes of connections, threads and locks in forked children
``loops.py``           whether an event loop runs here, and what belongs to one each
``fair.py``            a semaphore for threads, in the order in which they ask
=====================  ==============================================================================
"""
