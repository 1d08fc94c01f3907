"""The user's configuration: `~/.sky/config.yaml`, then `.sky.yaml` of the project, then `--config`.

Later layers win, key by key. The keys are SkyPilot's where they apply; each plugin's section is named after
it and checked against the plugin's own schema when it is used. Parsing YAML costs 40 ms, so the parsed
form is kept (0600) beside the file's identity, and read instead while that is unchanged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sky import paths
from sky.errors import UsageError

CORE_KEYS = {"allowed_clouds"}


def load(overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    """All layers merged. `overrides` are `--config` values: a file, or `a.b.c=VALUE`.

    Raises `UsageError` naming the file and line. A file that is absent is no layer, unless it was named.
    """
    merged: dict[str, Any] = {}
    layers = [
        (os.environ.get("SKYPILOT_GLOBAL_CONFIG"), paths.home() / "config.yaml"),
        (os.environ.get("SKYPILOT_PROJECT_CONFIG"), Path(".sky.yaml")),
    ]
    for named, default in layers:
        path = Path(named).expanduser() if named else default
        if named or os.path.isfile(path):  # noqa: PTH113 -- also false where nobody may look
            merged = merge(merged, _parse_file(path))
    for text in overrides:
        merged = merge(merged, _override(text))
    return merged


def merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`top` over `base`: maps are merged key by key, anything else is replaced."""
    result = dict(base)
    for key, value in top.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def strange(config: Mapping[str, Any], plugins: Iterable[str]) -> list[str]:
    """A line for each section whose name is nearly one that is known: mistyped, it would be ignored.

    Other unknown sections pass without a word: SkyPilot's own, or those of plugins that aren't installed.
    """
    known = {*CORE_KEYS, *plugins}
    odd = [str(key) for key in config if str(key) not in known]
    if not odd:
        return []
    from difflib import get_close_matches

    near = {key: get_close_matches(key, known, 1, 0.8) for key in odd}
    return [f"config: {key!r} is ignored; did you mean {names[0]!r}?" for key, names in near.items() if names]


def section(config: Mapping[str, Any], name: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A plugin's own section, checked against its schema. Raises `UsageError` for the first wrong key."""
    value = config.get(name) or {}
    if not isinstance(value, Mapping):
        raise UsageError(f"config: {name}: expected keys and values, not {value!r}")
    if schema is not None:
        check(value, schema, f"config: {name}")
    return value


def check(value: Any, schema: Mapping[str, Any], where: str) -> None:
    """The part of JSON schema that plugins' sections use: type, properties, additionalProperties, enum, items."""
    kinds = schema.get("type")
    if kinds is not None:
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(_is_kind(value, kind) for kind in kinds):
            raise UsageError(f"{where}: expected {' or '.join(kinds)}, not {value!r}")
    if "enum" in schema and value not in schema["enum"]:
        raise UsageError(f"{where}: expected one of {', '.join(map(str, schema['enum']))}, not {value!r}")
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        extra = schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in known:
                check(item, known[key], f"{where}.{key}")
            elif isinstance(extra, Mapping):
                check(item, extra, f"{where}.{key}")
            elif not extra:
                raise UsageError(f"{where}: unknown key {key!r}", remedy=_nearest(str(key), known))
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for number, item in enumerate(value):
            check(item, schema["items"], f"{where}[{number}]")


_KINDS: dict[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def _is_kind(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind])


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"


def _parse_file(path: Path) -> dict[str, Any]:
    try:
        info = path.stat()
    except OSError as error:
        raise UsageError(f"config: can't read {path}: {error.strerror}") from error
    where = str(path.absolute())
    identity = [where, info.st_ino, info.st_size, info.st_mtime_ns]
    import hashlib

    kept = paths.home() / "cache" / f"config-{hashlib.sha256(where.encode()).hexdigest()[:12]}.json"
    try:
        stored = json.loads(kept.read_bytes())
        if stored["identity"] == identity:
            return stored["config"]  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError):
        pass  # absent, or of another version: parsed below
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"config: {path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    config = _parse_text(text, str(path))
    try:
        document = json.dumps({"identity": identity, "config": config})
        paths.private("cache")
        paths.write_private(kept, document.encode())
    except (OSError, TypeError, ValueError):
        pass  # what JSON can't hold (a date), or a read-only home: parsed again next time
    return config


def _parse_text(text: str, where: str) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        config = yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise UsageError(f"{where}{line}: {getattr(error, 'problem', error)}") from error
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise UsageError(f"{where}: expected keys and values")
    return config


def _override(text: str) -> dict[str, Any]:
    path = Path(text).expanduser()
    if "=" not in text or path.is_file():
        return _parse_file(path)
    keys, _, value = text.partition("=")
    parsed: Any = _parse_text(f"value: {value}", "--config")["value"]
    for key in reversed(keys.split(".")):
        parsed = {key: parsed}
    return parsed  # type: ignore[no-any-return]
