"""What a pool's file may say, key by key, and every mistake in it by name. Pure, but for `~`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sky.api import Accelerator, UsageError
from sky_ssh import devices
from sky_ssh.pools import Machine, Pool

_ADDRESS = {
    "user": "user",
    "port": "port",
    "identity_file": "key",
    "proxy_jump": "proxy_jump",
    "proxy_command": "proxy_command",
    "known_hosts": "known_hosts",
}
_SHARED = (*_ADDRESS, "password", "accelerators", "cpus", "memory", "price", "lease_dir", "sudo")
_POOL_KEYS = ("hosts", *_SHARED)
_HOST_KEYS = ("ip", "host", "name", "internal_ip", *_SHARED)
_SHOWN = 8


class _Mistakes:
    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, where: str, what: str) -> None:
        self.found.append(f"{where}: {what}" if where else what)

    def unknown(self, where: str, values: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        for key in values:
            if key not in keys:
                near = difflib.get_close_matches(str(key), keys, n=1)
                self.add(where, f"unknown key {key!r}" + (f", did you mean {near[0]!r}?" if near else ""))


def read_pools(path: Path, text: str) -> list[Pool]:
    """The pools of the file's text. Raises `UsageError` that names every mistake: pool, host, key."""
    from sky_ssh import yaml_text

    mistakes = _Mistakes()
    pools: list[Pool] = []
    try:
        document = yaml_text.load(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}", remedy="it must be YAML") from error
    if document is not None and not isinstance(document, dict):
        mistakes.add("", "it must map names of pools to their hosts")
    for name, values in document.items() if isinstance(document, dict) else ():
        where = f"pool {name!r}"
        if not isinstance(values, dict):
            mistakes.add(where, "it must map `hosts` to a list")
            continue
        mistakes.unknown(where, values, _POOL_KEYS)
        pools.append(Pool(str(name), _machines(where, values, mistakes)))
    if mistakes.found:
        more = len(mistakes.found) - _SHOWN
        shown = "; ".join(mistakes.found[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise UsageError(f"{path}: {shown}", remedy="the keys are in the README of sky-plugin-ssh")
    return pools


def _machines(where: str, values: Mapping[str, Any], mistakes: _Mistakes) -> tuple[Machine, ...]:
    hosts = values.get("hosts")
    if not isinstance(hosts, list) or not hosts:
        mistakes.add(where, "`hosts` must be a list of at least one")
        return ()
    defaults = {key: value for key, value in values.items() if key in _SHARED and value is not None}
    machines: dict[str, Machine] = {}
    for number, entry in enumerate(hosts, 1):
        here = f"{where}, host {number}"
        own = entry if isinstance(entry, dict) else {"host": entry}
        mistakes.unknown(here, own, _HOST_KEYS)
        if ("ip" in own) == ("host" in own):
            mistakes.add(here, "needs `host` or `ip`, one of the two")
            continue
        merged = {**_without_other_proxy(defaults, own), **{k: v for k, v in own.items() if v is not None}}
        machine = _machine(here, merged, mistakes)
        if machine is None:
            continue
        if machine.name in machines:
            mistakes.add(here, f"{machine.name!r} is there twice")
        machines[machine.name] = machine
    return tuple(machines.values())


def _without_other_proxy(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """A host's own way in replaces the pool's, whichever of the two kinds each is."""
    proxies = {"proxy_jump", "proxy_command"}
    return {k: v for k, v in defaults.items() if not (k in proxies and proxies & set(own))}


def _machine(where: str, values: Mapping[str, Any], mistakes: _Mistakes) -> Machine | None:
    count = len(mistakes.found)
    texts = _texts(where, values, mistakes)
    user, _, host = (texts.get("host") or texts.get("ip") or "").rpartition("@")
    address = {"host": host, "host_keys": "strict"}
    if user:
        address["user"] = user
    for key, name in _ADDRESS.items():
        if key in texts:
            address[name] = texts[key]
    for key in ("key", "known_hosts"):
        if key in address:
            address[key] = str(Path(address[key]).expanduser())
    if "proxy_jump" in texts and "proxy_command" in texts:
        mistakes.add(where, "`proxy_jump` and `proxy_command`: only one of the two")
    _check(where, texts, address, mistakes)
    port = texts.get("port", "22")
    machine = Machine(
        name=texts.get("name") or (host if port == "22" else f"{host}:{port}"),
        address=address,
        cpus=_number(where, "cpus", texts, mistakes),
        memory_gib=_number(where, "memory", texts, mistakes),
        accelerator=_accelerator(where, values.get("accelerators"), mistakes),
        internal_ip=texts.get("internal_ip", ""),
        price_usd_per_hour=_number(where, "price", texts, mistakes) or 0.0,
        lease_dir=texts.get("lease_dir", ""),
        sudo_required=texts.get("sudo") == "required",
        password=texts.get("password", ""),
    )
    return machine if len(mistakes.found) == count else None


def _texts(where: str, values: Mapping[str, Any], mistakes: _Mistakes) -> dict[str, str]:
    texts = {}
    for key, value in values.items():
        if key == "accelerators" or key not in _HOST_KEYS:
            continue
        # The value isn't shown: it may be a password, or hold one.
        if not isinstance(value, str) or not value.strip() or "\n" in value or "\0" in value:
            mistakes.add(where, f"`{key}` must be one line of text")
        else:
            texts[key] = value
    return texts


def _check(where: str, texts: Mapping[str, str], address: Mapping[str, str], mistakes: _Mistakes) -> None:
    for key in ("host", "ip", "user", "name", "internal_ip", "proxy_jump"):
        if key in texts and (re.search(r"\s", texts[key]) or texts[key].startswith("-")):
            mistakes.add(where, f"`{key}` has a space, or starts with a dash: {texts[key]!r}")
    if not address["host"]:
        mistakes.add(where, "needs `host` or `ip`, one of the two")
    if ":" in address["host"] and not _is_ipv6(address["host"]):
        mistakes.add(where, _with_port(address["host"]))
    port = texts.get("port")
    if port is not None and not (re.fullmatch(r"[1-9]\d{0,4}", port, re.ASCII) and int(port) < 65536):
        mistakes.add(where, f"`port` must be 1 to 65535, not {port!r}")
    for key, name in (("identity_file", "key"), ("known_hosts", "known_hosts")):
        if key in texts and not Path(address[name]).is_absolute():
            mistakes.add(where, f"`{key}` must be an absolute path or start with ~/, not {texts[key]!r}")
    if not texts.get("lease_dir", "/").startswith("/"):
        mistakes.add(where, f"`lease_dir` must be an absolute path, not {texts['lease_dir']!r}")
    if texts.get("sudo", "required") != "required":
        mistakes.add(where, f"`sudo` can only be `required`, not {texts['sudo']!r}")


def _is_ipv6(host: str) -> bool:
    import ipaddress

    try:
        return isinstance(ipaddress.ip_address(host), ipaddress.IPv6Address)
    except ValueError:
        return False


def _with_port(host: str) -> str:
    """What to write instead of HOST:PORT, [IPV6]:PORT, [IPV6] or a url."""
    bare = re.sub(r"^ssh://(.*?)/?$", r"\1", host)
    match = re.fullmatch(r"\[(.+)\](?::(\d+))?|([^:]+):(\d+)", bare, re.ASCII)
    wrong = f"{host!r} is no name or address of a host"
    if match is None:
        return wrong
    name, port = match[1] or match[3], match[2] or match[4]
    return f"{wrong}: write {{host: {name!r}" + (f", port: {port}}}" if port else "}")


def _number(where: str, key: str, texts: Mapping[str, str], mistakes: _Mistakes) -> float | None:
    text = texts.get(key)
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)( ?Gi?B?)?", text, re.ASCII | re.IGNORECASE)
    if match is None or (match[2] and key != "memory") or (key != "price" and float(match[1]) == 0):
        unit = {"memory": " of GiB", "price": " of US dollars an hour"}.get(key, "")
        mistakes.add(where, f"`{key}` must be a number{unit}, not {text!r}")
        return None
    return float(match[1])


def _accelerator(where: str, value: Any, mistakes: _Mistakes) -> Accelerator | None:
    if value is None:
        return None
    pairs = value.items() if isinstance(value, dict) else [str(value).partition(":")[::2]]
    found = [(str(name).strip(), str(count or 1).strip()) for name, count in pairs]
    if len(found) != 1 or not found[0][0] or not re.fullmatch(r"[1-9]\d*", found[0][1], re.ASCII):
        mistakes.add(where, "`accelerators` must be one kind and how many: {H100: 8}")
        return None
    return Accelerator(devices.canonical(found[0][0]), int(found[0][1]))
