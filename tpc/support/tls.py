"""Why a server's certificate is not trusted, in words: drivers say only that it is not.

Makes one handshake of its own, beside the driver's, and tells what Python's `ssl` has against the certificate.
"""

from __future__ import annotations

import socket
import ssl


def complaint(
    host: str, port: int, authorities: str | None, timeout_s: float, *, first_word: bytes = b""
) -> str | None:
    """What is wrong with the certificate that `host` shows; None if nothing is, or if it could not be asked.

    `authorities` is the PEM file of those who are trusted; None: the system's. `first_word` is sent before the
    handshake, by protocols that begin in the clear; the server's answer to it is one byte, `S`.
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
