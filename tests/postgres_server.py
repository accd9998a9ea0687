"""A private PostgreSQL server on loopback: the fixture `postgres` runs one for all tests that need it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

PATIENCE = 60.0


def find_binaries() -> Path | None:
    """The folder that holds `postgres` and `initdb`; None where none is installed."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((one for one in folders if (one / "initdb").is_file() and (one / "postgres").is_file()), None)


class PostgresServer:
    """`with PostgresServer(binaries) as server:` is one in an empty folder, without passwords; nothing in it lasts."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        # It refuses to run as root.
        self._user: str | None = None
        if os.geteuid() == 0:
            names = [one.pw_name for one in pwd.getpwall()]
            self._user = "postgres" if "postgres" in names else "nobody"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def __enter__(self) -> PostgresServer:
        # Not in pytest's folder, which is its user's alone.
        self._folder = Path(tempfile.mkdtemp(prefix="gpa-judges-postgres-"))
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        data = self._folder / "data"
        initdb = [f"{self._binaries}/initdb", "-D", str(data), "-U", "tester", "-A", "trust", "-N", "-E", "UTF8"]
        subprocess.run(initdb, check=True, capture_output=True, cwd="/", user=self._user)
        # What ends with the tests need not last.
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        command = [f"{self._binaries}/postgres", "-D", str(data), "-p", str(self.port)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", user=self._user)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # At once: nothing in it lasts.
        self._process.send_signal(signal.SIGQUIT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def empty(self) -> str:
        """The URL of its database, of which nothing is left that an earlier test put there."""
        with self.connect("postgres") as db:
            others = "usename = current_user AND pid <> pg_backend_pid()"
            db.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
            db.execute("DROP SCHEMA IF EXISTS gpa_judges CASCADE")
        return self.url("postgres")

    def url(self, database: str) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str) -> Any:
        import psycopg

        return psycopg.connect(self.url(database), autocommit=True)

    def _wait(self) -> None:
        import psycopg

        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect("postgres").close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self._folder / "log").read_text(errors="replace")) from None
                time.sleep(0.05)
