"""Kubeconfig files as kubectl reads them: several merged, and their contexts resolved."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sky.api import CredentialsError, UsageError
from sky_kubernetes.kubeconfig_file import FileKey, Secret, read_document, reveal

__all__ = [
    "IN_CLUSTER",
    "SERVICE_ACCOUNT",
    "ContextRef",
    "Kubeconfig",
    "Secret",
    "called",
    "default_paths",
    "load",
    "reveal",
]

IN_CLUSTER = "in-cluster"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRef:
    """One context with its cluster and user: all that is needed to connect. No I/O was done for it."""

    name: str
    server: str
    namespace: str = ""
    """As the context says; empty where it says none (then `default`)."""
    cluster: Mapping[str, Any] = field(default_factory=dict, repr=False)
    user: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The user entry; scalars are `str` or `Secret`, never of another type."""
    user_name: str = ""
    problem: str = ""
    """Why it can't be used (a cluster or user that isn't defined); empty if it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """The merged files. `files` are those that exist, `searched` all that were looked for."""

    contexts: Mapping[str, ContextRef]
    current: str | None
    files: tuple[FileKey, ...] = ()
    searched: tuple[str, ...] = ()

    def context(self, name: str | None = None) -> ContextRef:
        """The context of that name, or the current one. Raises `UsageError` or `CredentialsError`."""
        if not self.contexts:
            where = ", ".join(self.searched)
            raise CredentialsError(
                f"no Kubernetes context: looked in {where}",
                remedy="set KUBECONFIG, or get a kubeconfig from your cluster's provider",
            )
        if name is None and self.current is None:
            names = ", ".join(sorted(self.contexts))
            raise UsageError(
                f"no current Kubernetes context; there are: {names}",
                remedy="choose one: kubectl config use-context NAME, or --infra kubernetes/NAME",
            )
        wanted = name if name is not None else str(self.current)
        ref = self.contexts.get(wanted)
        if ref is None:
            from difflib import get_close_matches

            near = get_close_matches(wanted, self.contexts, 3) or sorted(self.contexts)[:10]
            raise UsageError(
                f"no Kubernetes context {wanted!r} in {', '.join(self.searched)}",
                remedy=f"there are: {', '.join(near)}",
            )
        if ref.problem:
            raise UsageError(f"Kubernetes context {wanted!r}: {ref.problem}", remedy="mend the kubeconfig")
        return ref


def called(context: str) -> str:
    """A context, in messages."""
    return f"Kubernetes context {context!r}"


def default_paths() -> tuple[str, ...]:
    """Where kubectl looks: each path of KUBECONFIG, else ~/.kube/config."""
    listed = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return tuple(dict.fromkeys(listed)) or (str(Path("~/.kube/config").expanduser()),)


def load(
    paths: Sequence[str] | None = None,
    *,
    directory: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Kubeconfig:
    """Read and merge kubeconfig files as kubectl does: of equal names the first file's wins.

    A missing file is skipped. Without any file, inside a pod, its service account is the context
    `in-cluster`. `directory` holds the cache of parsed files; None parses each time. Blocks for file reads;
    may be repeated. Raises `CredentialsError` for a file that can't be read or isn't a kubeconfig.
    """
    searched = tuple(paths) if paths is not None else default_paths()
    documents: list[Mapping[str, Any]] = []
    keys: list[FileKey] = []
    for path in searched:
        try:
            key = FileKey.of(path, Path(path).stat())
            documents.append(read_document(key, directory))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CredentialsError(f"kubeconfig {path}: {error.strerror}") from error
        keys.append(key)
    if not documents and paths is None and (ref := _in_cluster(service_account)) is not None:
        return Kubeconfig(contexts={ref.name: ref}, current=ref.name, searched=searched)
    contexts, current = _merge(documents)
    return Kubeconfig(contexts=contexts, current=current, files=tuple(keys), searched=searched)


def _in_cluster(service_account: Path) -> ContextRef | None:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = service_account / "token"
    if not host or not token.exists():
        return None
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = (service_account / "namespace").read_text().strip()
    return ContextRef(
        name=IN_CLUSTER,
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace,
        cluster={"certificate-authority": str(service_account / "ca.crt")},
        user={"tokenFile": str(token)},
        user_name="service account",
    )


# --- merging -----------------------------------------------------------------------------------------


def _merge(documents: Sequence[Mapping[str, Any]]) -> tuple[dict[str, ContextRef], str | None]:
    sections: dict[str, dict[str, Mapping[str, Any]]] = {"clusters": {}, "users": {}, "contexts": {}}
    current: str | None = None
    for document in documents:
        current = current or document.get("current-context") or None
        for section, entries in sections.items():
            for entry in document.get(section) or ():
                body = entry.get(section[:-1])
                entries.setdefault(str(entry.get("name")), body if isinstance(body, Mapping) else {})
    contexts = {}
    for name, body in sections["contexts"].items():
        cluster_name, user_name = str(body.get("cluster") or ""), str(body.get("user") or "")
        cluster, user = sections["clusters"].get(cluster_name), sections["users"].get(user_name)
        server = str((cluster or {}).get("server") or "")
        problem = ""
        if cluster is None:
            problem = f"its cluster {cluster_name!r} isn't defined"
        elif user_name and user is None:
            problem = f"its user {user_name!r} isn't defined"
        elif not server.startswith(("https://", "http://")):
            problem = f"its cluster {cluster_name!r} has no server address"
        contexts[name] = ContextRef(
            name=name,
            server=server.rstrip("/"),
            namespace=str(body.get("namespace") or ""),
            cluster=cluster or {},
            user=user or {},
            user_name=user_name,
            problem=problem,
        )
    return contexts, current
