"""TLS errors that last until somebody corrects a file or a URL, as opposed to a lost connection."""

import ssl

#: The peer went away, in a handshake or later: it may be back soon.
_ENDED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def stays_wrong(error: BaseException | None) -> bool:
    """Whether a retry cannot fix a TLS error: a bad certificate, a server without TLS."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, _ENDED):
        return False
    return error.reason != "UNEXPECTED_EOF_WHILE_READING"
