"""A real `mlflow server` on loopback, in a process of its own: the fixture `mlflow_server` runs one for all tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PATIENCE = 120.0
"""Seconds until it must answer: it makes its database first, on machines that do other things too."""


class MlflowServer:
    """`with MlflowServer(folder) as server:` serves `server.uri` from `server.database`, a SQLite file in there."""

    def __init__(self, folder: Path) -> None:
        self.database = f"sqlite:///{folder}/mlflow.db"
        self._log = folder / "server.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{port}"
        self._command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            *("--backend-store-uri", self.database, "--artifacts-destination", str(folder / "files")),
        ]

    def __enter__(self) -> MlflowServer:
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, env={**os.environ, **quiet}, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"no MLflow server:\n{self._log.read_text(errors='replace')}") from None
            time.sleep(0.1)

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
