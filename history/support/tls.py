"""What stays wrong with TLS until somebody corrects a file or a URL, told from a line that merely ended."""

import ssl

#: The peer went away, in a handshake or later: it may be back soon.
_ENDED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def stays_wrong(error: BaseException | None) -> bool:
    """Whether trying again does not mend an error of TLS: a bad certificate, a server without TLS."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, _ENDED):
        return False
    return error.reason != "UNEXPECTED_EOF_WHILE_READING"
