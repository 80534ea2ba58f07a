"""The stand-in for MongoDB with TLS. It knows no logins: a password cannot be tried without a `mongod`."""

from __future__ import annotations

import base64
import re
import ssl
from pathlib import Path
from typing import Any

from tpc.chaos.servers.certificates import Certificate, CertificateAuthority
from tpc.chaos.servers.mongo import MongoJavaServer

KEY_KIND = "EC"
"""Java's name of the keys that `CertificateAuthority` makes."""


class SecuredMongoServer(MongoJavaServer):
    """A server that a client reaches as `localhost` or 127.0.0.1, with a certificate that `authority` has signed."""

    name = "secured-mongo"

    def __init__(self, directory: Path | str, **settings: Any) -> None:
        super().__init__(directory, **settings)
        self.authority = CertificateAuthority(self.directory / "authority")
        self._certificate: Certificate = self.authority.issue("server")

    @property
    def uri(self) -> str:
        """A connection string that trusts nobody but this server."""
        return f"mongodb://localhost:{self.port}/?tls=true&tlsCAFile={self.authority.path}"

    def show(self, certificate: Certificate) -> None:
        """Show another certificate; a server that runs is started again."""
        self._certificate = certificate
        if self.alive:
            self.restart()

    def _prepare(self, gateway: Any, server: Any) -> None:
        java = gateway.jvm
        specification = java.java.security.spec.PKCS8EncodedKeySpec(_unarmoured(self._certificate.key))
        key = java.java.security.KeyFactory.getInstance(KEY_KIND).generatePrivate(specification)
        text = java.java.io.ByteArrayInputStream(
            bytearray(ssl.PEM_cert_to_DER_cert(self._certificate.certificate.read_text()))
        )
        shown = gateway.new_array(java.java.security.cert.X509Certificate, 1)
        shown[0] = java.java.security.cert.CertificateFactory.getInstance("X.509").generateCertificate(text)
        server.enableSsl(key, None, shown)

    def _answers(self) -> bool:
        import pymongo
        from pymongo.errors import PyMongoError

        if not self._listens():
            return False
        address = f"mongodb://127.0.0.1:{self.port}/?tls=true&tlsAllowInvalidCertificates=true"
        client: pymongo.MongoClient[Any] = pymongo.MongoClient(address, serverSelectionTimeoutMS=2000)
        with client:
            try:  # with whatever certificate it shows
                client.admin.command("ping")
            except PyMongoError:
                return False
        return True


def _unarmoured(key: Path) -> bytearray:
    """The bytes of a PEM file that holds one key."""
    return bytearray(base64.b64decode(re.sub(r"-----[A-Z ]+-----", "", key.read_text())))
