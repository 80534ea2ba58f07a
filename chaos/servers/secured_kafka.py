"""A Kafka broker as it is run in production: clients speak TLS, log in by SCRAM, and may do what an ACL allows.

Beside SCRAM it takes tokens (OAUTHBEARER) that nobody has signed, as Kafka does for trials.

The listener that the broker talks to itself on is plain, on 127.0.0.1. Users and ACLs are the caller's to make, as the
superuser `admin`.
"""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path
from typing import Any

from tpc.chaos.servers.certificates import Certificate, CertificateAuthority
from tpc.chaos.servers.kafka import KafkaServer
from tpc.errors import LocalServerError
from tpc.support.deadlines import until

MECHANISM = "SCRAM-SHA-512"
ADMIN = "admin"
ADMIN_PASSWORD = "of-the-superuser"

_SECURITY = """\
listeners=SASL_SSL://127.0.0.1:{port},{internal}{bad}
advertised.listeners=SASL_SSL://localhost:{port},{internal}{bad_advertised}
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,SASL_SSL:SASL_SSL{bad_protocols}
sasl.enabled.mechanisms={mechanism},OAUTHBEARER
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{admin};User:ANONYMOUS
allow.everyone.if.no.acl.found=false
"""
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OF_A_LISTENER = """\
listener.name.{listener}.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.{listener}.oauthbearer.sasl.jaas.config={oauth} required;
listener.name.{listener}.ssl.keystore.type=PEM
listener.name.{listener}.ssl.keystore.location={keystore}
"""
GOOD = "SASL_SSL"
ROTATION_TIMEOUT_S = 30.0
BAD = ("EXPIRED", "ELSEWHERE")
"""Listeners whose certificates a client must refuse: one is expired, the other is another host's."""


class SecuredKafkaServer(KafkaServer):
    """A broker that clients reach as `localhost`, with a certificate that `authority` has signed."""

    name = "secured-kafka"
    ports_needed = 3 + len(BAD)

    def __init__(self, directory: Path | str, **settings: Any) -> None:
        super().__init__(directory, **settings)
        self.authority = CertificateAuthority(self.directory / "authority")
        self._certificates = {
            GOOD: self.authority.issue("server"),
            "EXPIRED": self.authority.issue("expired", days_valid=-1),
            "ELSEWHERE": self.authority.issue("elsewhere", hosts=("kafka.example.org",)),
        }
        self._rotations = 0

    @property
    def bootstrap(self) -> str:
        """By the name that the certificate carries."""
        return f"localhost:{self.port}"

    @property
    def plain_bootstrap(self) -> str:
        """The broker's own listener, on which everybody is a superuser: for checkers."""
        return f"127.0.0.1:{self._ports[2]}"

    def bootstrap_of(self, listener: str) -> str:
        """The same of one of the `BAD` listeners."""
        return f"localhost:{self._ports[3 + BAD.index(listener)]}"

    def client(self, user: str) -> dict[str, str]:
        """The settings of librdkafka for `user`, without the password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "ssl.ca.location": str(self.authority.path),
        }

    def administrator(self) -> dict[str, str | int | float | bool]:
        """All settings of a client of the superuser."""
        return {**self.client(ADMIN), "bootstrap.servers": self.bootstrap, "sasl.password": ADMIN_PASSWORD}

    def rotate(self, certificate: Certificate) -> None:
        """Show another certificate to whoever connects from now on; no connection is ended.

        The broker takes it while it runs, if its subject and its hosts are those of the certificate before.
        """
        from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        self._rotations += 1
        keystore = self.directory / f"rotated-{self._rotations}.pem"  # a new name: the broker looks at nothing else
        shutil.copyfile(certificate.key_and_certificate, keystore)
        name = f"listener.name.{GOOD.lower()}.ssl.keystore.location"
        entry = ConfigEntry(name, str(keystore), incremental_operation=AlterConfigOpType.SET)
        broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": self.plain_bootstrap})
        admin.incremental_alter_configs([broker], request_timeout=ROTATION_TIMEOUT_S)[broker].result()
        wanted = certificate.certificate.read_text().strip()

        def shown() -> bool:
            return ssl.get_server_certificate(("localhost", self.port), timeout=5).strip() == wanted

        if not until(shown, ROTATION_TIMEOUT_S):
            raise LocalServerError(f"the {self.name} server does not show the certificate that it was given")

    def _administrator(self) -> dict[str, str | int | float | bool]:
        return self.administrator()

    def _properties(self) -> str:
        port, controller_port, internal_port, *bad_ports = every = self._ports
        bad = dict(zip(BAD, bad_ports, strict=True))
        security = _SECURITY.format(
            port=port,
            internal=f"CONTROLLER://127.0.0.1:{controller_port},INTERNAL://127.0.0.1:{internal_port}",
            bad="".join(f",{name}://127.0.0.1:{number}" for name, number in bad.items()),
            bad_advertised="".join(f",{name}://localhost:{number}" for name, number in bad.items()),
            bad_protocols="".join(f",{name}:SASL_SSL" for name in bad),
            mechanism=MECHANISM,
            keystore=self._certificates[GOOD].key_and_certificate,
            truststore=self.authority.path,
            admin=ADMIN,
        )
        for listener, certificate in self._certificates.items():
            security += _OF_A_LISTENER.format(
                listener=listener.lower(), scram=_SCRAM, oauth=_OAUTH, keystore=certificate.key_and_certificate
            )
        replaced = {line.partition("=")[0] for line in security.splitlines()}
        self._ports = (port, controller_port)
        try:
            plain = super()._properties().splitlines()
        finally:
            self._ports = every
        return "\n".join([line for line in plain if line.partition("=")[0] not in replaced]) + "\n" + security

    def _format_options(self) -> list[str]:
        scram = f"{MECHANISM}=[name={ADMIN},password={ADMIN_PASSWORD}]"
        return [*super()._format_options(), "--add-scram", scram]
