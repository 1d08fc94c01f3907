"""What the fixtures of `conftest.py` give, as types that test modules can name."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sky.api import Context

TESTBED = Path(os.environ.get("SKY_TESTBED", "~/.cache/sky-testbed")).expanduser() / "kubernetes"

MakeContext = Callable[..., Context]


@dataclass(frozen=True)
class Certificates:
    """A private authority and a server certificate of it for `api.test` and 127.0.0.1."""

    authority: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True)
class Cluster:
    """A real Kubernetes, and a namespace of it that is ours alone."""

    kubeconfig: Path
    """Its only context, `testbed`, has our namespace as its own; KUBECONFIG is set to it."""
    context: str
    namespace: str

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """The oracle: what kubectl says, in our namespace."""
        done = subprocess.run(
            [str(TESTBED / "bin" / "kubectl"), "--kubeconfig", str(self.kubeconfig), *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
