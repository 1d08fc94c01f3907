"""Kubeconfig files as kubectl reads them: several merged, contexts resolved, secrets kept out of memory.

Parsing YAML costs more than a whole `exec`, so each file's structure is cached as JSON beside its stat. A
secret is never in that cache: only where in the file its text stands, to be read when it is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sky.api import CredentialsError, UsageError

IN_CLUSTER = "in-cluster"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CACHE_VERSION = 1

# What of a user entry may be written to the cache; every other scalar below `user` counts as a secret.
_PUBLIC_USER_KEYS = frozenset(
    {
        *("as", "as-groups", "as-uid", "username", "tokenFile"),
        *("client-certificate", "client-certificate-data", "client-key"),
        *("name", "command", "apiVersion", "installHint", "interactiveMode", "provideClusterInfo"),
    }
)
_PATH_KEYS = frozenset(("certificate-authority", "client-certificate", "client-key", "tokenFile"))
_SECRET_MARK = "$secret"
# A file written this short a time ago could change once more without a change of its stat.
_SETTLED_SECONDS = 2.0


class FileKey(tuple[str, int, int, int]):
    """What identifies one state of a file: path, mtime (ns), size, inode."""

    __slots__ = ()

    @classmethod
    def of(cls, path: str, stat: os.stat_result) -> FileKey:
        return cls((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's text, or where it stands in a file. `repr` shows neither."""

    value: str | None = field(default=None, repr=False)
    file: FileKey | None = None
    start: int = 0
    end: int = 0

    def reveal(self) -> str:
        """The text. Blocks for one read of the file. Raises `CredentialsError` if the file has changed."""
        if self.value is not None:
            return self.value
        assert self.file is not None
        path = self.file[0]
        try:
            with open(path, "rb") as source:
                if FileKey.of(path, os.fstat(source.fileno())) != self.file:
                    raise CredentialsError(
                        f"kubeconfig {path} changed while it was read", remedy="run the command again"
                    )
                return _unquote(source.read().decode()[self.start : self.end])
        except OSError as error:
            raise CredentialsError(f"kubeconfig {path}: {error.strerror}") from error


def reveal(value: Secret | str | None) -> str:
    """The text of a scalar that may be secret; empty for None."""
    return value.reveal() if isinstance(value, Secret) else value or ""


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
            documents.append(_read_document(key, directory))
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


# --- one file ----------------------------------------------------------------------------------------


def _read_document(key: FileKey, directory: Path | None) -> Mapping[str, Any]:
    cache = None if directory is None else directory / f"kubeconfig-{_short_digest(key[0])}.json"
    if cache is not None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(cache.read_text())
            if stored["version"] == CACHE_VERSION and tuple(stored["key"]) == key:
                return _thaw(stored["document"], key)  # type: ignore[no-any-return]
    text = Path(key[0]).read_bytes().decode(errors="replace")
    document, cacheable = _Parser(text, key).parse()
    if cache is not None and cacheable and time.time() - key[1] / 1e9 > _SETTLED_SECONDS:
        write_private(
            cache, json.dumps({"version": CACHE_VERSION, "key": key, "document": _freeze(document)}).encode()
        )
    return document


class _Parser:
    """Scalars as they are written, never as YAML types them: a token of digits stays text."""

    def __init__(self, text: str, key: FileKey) -> None:
        self._text = text
        self._key = key
        self._cacheable = True

    def parse(self) -> tuple[Mapping[str, Any], bool]:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            root = yaml.compose(self._text, Loader=loader)
        except yaml.YAMLError as error:
            # The error's own text quotes the line, which may hold a token.
            mark = getattr(error, "problem_mark", None)
            line = f" (line {mark.line + 1})" if mark is not None else ""
            raise CredentialsError(
                f"kubeconfig {self._key[0]} isn't valid YAML{line}", remedy="mend it, or get it again"
            ) from None
        document = self._build(root, secret=False) if root is not None else {}
        if not isinstance(document, dict):
            raise CredentialsError(f"{self._key[0]} isn't a kubeconfig")
        return document, self._cacheable

    def _build(self, node: Any, *, secret: bool, name: str = "") -> Any:
        if node.id == "mapping":
            built = {}
            for key_node, value in node.value:
                name = key_node.value
                # A context's `user` is a name; an entry of `users` holds a mapping of that key.
                inside = secret or (name == "user" and value.id == "mapping")
                hidden = inside and name not in _PUBLIC_USER_KEYS
                built[name] = self._build(value, secret=hidden or name == "proxy-url", name=name)
            return built
        if node.id == "sequence":
            return [self._build(item, secret=secret, name=name) for item in node.value]
        if node.tag == "tag:yaml.org,2002:null":
            return None
        if not secret:
            return self._resolve(name, node.value)
        start, end = node.start_mark.index, node.end_mark.index
        if _unquote(self._text[start:end]) != node.value:
            self._cacheable = False  # folded, escaped or shifted by a byte order mark: can't be read back
        return Secret(node.value, self._key, start, end)

    def _resolve(self, name: str, value: str) -> str:
        base = os.path.dirname(os.path.abspath(self._key[0]))  # noqa: PTH100, PTH120
        if (name in _PATH_KEYS and value) or (name == "command" and os.sep in value):
            return os.path.join(base, value)  # noqa: PTH118
        return value


def _unquote(text: str) -> str:
    """The value of a scalar written plain or in quotes on one line without escapes; others come out wrong."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def _freeze(value: Any) -> Any:
    if isinstance(value, Secret):
        return {_SECRET_MARK: [value.start, value.end]}
    if isinstance(value, Mapping):
        return {key: _freeze(item) for key, item in value.items()}
    return [_freeze(item) for item in value] if isinstance(value, list) else value


def _thaw(value: Any, key: FileKey) -> Any:
    if isinstance(value, dict):
        if _SECRET_MARK in value:
            start, end = value[_SECRET_MARK]
            return Secret(None, key, start, end)
        return {name: _thaw(item, key) for name, item in value.items()}
    return [_thaw(item, key) for item in value] if isinstance(value, list) else value


# --- the source of the credentials -------------------------------------------------------------------


def fingerprint(directory: Path, contexts: Sequence[str] = ()) -> str:
    """A digest of where credentials come from, for `sky_credential_fingerprint`; no SDK, no network.

    It changes with KUBECONFIG, with any of its files, with the certificate and token files of `contexts`
    (default: the current one) and, where a login program is used, with the environment and files that such
    programs read. Environment values enter only under a key that is private to `directory`.
    """
    config = load(directory=directory)
    parts: list[object] = [os.environ.get("KUBECONFIG", ""), config.files, config.current, tuple(contexts)]
    if config.current == IN_CLUSTER:
        parts.append((config.contexts[IN_CLUSTER].server, SERVICE_ACCOUNT.joinpath("token").exists()))
    for name in contexts or filter(None, (config.current,)):
        ref = config.contexts.get(name)
        if ref is None or ref.name == IN_CLUSTER:
            continue
        parts.append((name, ref.server, ref.user_name))
        parts.extend(_stat_key(str(ref.user[key])) for key in _PATH_KEYS if ref.user.get(key))
        if "exec" in ref.user or "auth-provider" in ref.user:
            parts.extend(_login_sources(directory))
    return digest(repr(parts).encode())


_LOGIN_PREFIXES = (
    "AWS_",
    "AZURE_",
    "AAD_",
    "ARM_",
    "GOOGLE_",
    "CLOUDSDK_",
    "OIDC_",
    "OCI_",
    "TSH_",
    "TELEPORT_",
)
_LOGIN_FILES = (
    "~/.aws/config",
    "~/.aws/credentials",
    "~/.config/gcloud/active_config",
    "~/.config/gcloud/credentials.db",
    "~/.azure/azureProfile.json",
)


def _login_sources(directory: Path) -> list[object]:
    import hmac

    environment = sorted(item for item in os.environ.items() if item[0].startswith(_LOGIN_PREFIXES))
    mac = hmac.new(_private_key(directory), repr(environment).encode(), "sha256").hexdigest()
    return [mac, *(_stat_key(str(Path(path).expanduser())) for path in _LOGIN_FILES)]


def _private_key(directory: Path) -> bytes:
    path = directory / "fingerprint.key"
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    write_private(path, os.urandom(32))
    return path.read_bytes()


def _stat_key(path: str) -> FileKey | None:
    try:
        return FileKey.of(path, Path(path).stat())
    except OSError:
        return None


def write_private(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 whole or not at all; a directory that can't be written is no error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
            target.write(content)
        temporary.replace(path)


def digest(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _short_digest(text: str) -> str:
    return digest(text.encode())[:16]
