"""One kubeconfig file: its structure parsed and cached, its secrets left where they are.

Parsing YAML costs more than a whole `exec`, so the structure is cached as JSON beside the file's stat. A
secret is never in that cache: only where in the file its text stands, to be read when it is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sky.api import CredentialsError

CACHE_VERSION = 1

# What of a user entry may be written to the cache; every other scalar below `user` counts as a secret.
_PUBLIC_USER_KEYS = frozenset(
    {
        *("as", "as-groups", "as-uid", "username", "tokenFile"),
        *("client-certificate", "client-certificate-data", "client-key"),
        *("name", "command", "apiVersion", "installHint", "interactiveMode", "provideClusterInfo"),
    }
)
PATH_KEYS = frozenset(("certificate-authority", "client-certificate", "client-key", "tokenFile"))
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


def read_document(key: FileKey, directory: Path | None) -> Mapping[str, Any]:
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
        if (name in PATH_KEYS and value) or (name == "command" and os.sep in value):
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
