"""A certificate authority of a test's own: certificates for servers, good ones and such as a client must refuse.

Writes PEM files. The keys lie unencrypted beside them, in the directory of a server that is thrown away.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.errors import NotInstalledError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import GeneralName

DAYS_VALID = 30
HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Certificate:
    """Paths of a certificate and its key, in PEM; `key_and_certificate` holds both, as Kafka wants it."""

    certificate: Path
    key: Path
    key_and_certificate: Path


class CertificateAuthority:
    """Signs as `name`; clients trust the file `path`. Raises `NotInstalledError` without `cryptography`."""

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise NotInstalledError(
                "certificates cannot be made: `cryptography` is not installed", remedy="pip install cryptography."
            ) from None

        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.name = name
        self.path = directory / "ca.pem"
        self._key: EllipticCurvePrivateKey = ec.generate_private_key(ec.SECP256R1())
        self.path.write_bytes(self._signed(name, self._key, (), days_valid=DAYS_VALID, is_authority=True))

    def issue(self, name: str, *, hosts: tuple[str, ...] = HOSTS, days_valid: int = DAYS_VALID) -> Certificate:
        """A server's certificate for `hosts`, in files that begin with `name`; expired if `days_valid` is negative."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(name, key, hosts, days_valid=days_valid, is_authority=False)
        key_text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        files = Certificate(
            self.directory / f"{name}.crt", self.directory / f"{name}.key", self.directory / f"{name}.pem"
        )
        for path, text in (
            (files.certificate, certificate),
            (files.key, key_text),
            (files.key_and_certificate, key_text + certificate),
        ):
            path.write_bytes(text)
            path.chmod(0o600)
        return files

    def _signed(
        self,
        name: str,
        key: EllipticCurvePrivateKey,
        hosts: tuple[str, ...],
        *,
        days_valid: int,
        is_authority: bool,
    ) -> bytes:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.x509.oid import NameOID

        def named(common_name: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])

        now = dt.datetime.now(dt.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=2 * DAYS_VALID))
            .not_valid_after(now + dt.timedelta(days=days_valid))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _general(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
