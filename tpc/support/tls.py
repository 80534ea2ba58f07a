"""Why a server's certificate is not trusted: client libraries only say that it is not.

Makes a second handshake, apart from the client's, and returns the reason of Python's `ssl`.
"""

from __future__ import annotations

import socket
import ssl


def complaint(
    host: str, port: int, authorities: str | None, timeout_s: float, *, first_word: bytes = b""
) -> str | None:
    """What is wrong with the certificate of `host`; None if nothing is, or if the server did not answer.

    `authorities` is the PEM file of the trusted authorities; None: those of the system. `first_word` is sent before the
    handshake, for protocols that begin without TLS; the server answers it with one byte, `S`.
    """
    try:
        context = ssl.create_default_context(cafile=authorities)
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            if first_word:
                connection.sendall(first_word)
                if connection.recv(1) != b"S":
                    return None
            with context.wrap_socket(connection, server_hostname=host):
                return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (OSError, ValueError):
        return None
