"""What `Host.address` holds for the transport `ssh`: the contract between any cloud whose machines have sshd and
this runner. All values are strings; only `host` is required. Equal addresses are the same connection.

- `host`: a name or address, as one would give it to `ssh`: also an alias of the user's ssh config.
- `user`: login name; absent: what the ssh config says, else the local one.
- `port`: absent: what the ssh config says, else 22.
- `key`: path of a private key on this machine. Of the agent's keys only this one, and those that the ssh config
  names for the host, are offered.
- `proxy_jump`: `[USER@]HOST[:PORT]`, several by commas. Hops are reached with the same `key`, `config`,
  `known_hosts` and `host_keys`; `none`: directly, whatever the ssh config says.
- `proxy_command`: as in ssh_config; at most one of the two.
- `config`: `user` (default): the user's ssh config is read, and what is said here wins over it; `none`: it isn't, as
  for a new machine of a cloud, which no `Host *` should catch.
- `known_hosts`: path of a file of host keys to use instead of the user's.
- `host_keys`: `strict`: a key that isn't known is refused; `first-use`: it is learnt into `known_hosts`, one that
  changed is refused; absent: what the ssh config says, where a question to the user is a refusal.
"""

from __future__ import annotations

from typing import NamedTuple

from sky.api import Host, UsageError

KEYS = (
    "host",
    "user",
    "port",
    "key",
    "proxy_jump",
    "proxy_command",
    "config",
    "known_hosts",
    "host_keys",
)


class Target(NamedTuple):
    """An address, taken apart and checked."""

    name: str
    """For people."""
    host: str
    user: str = ""
    port: str = ""
    key: str = ""
    proxy_jump: str = ""
    proxy_command: str = ""
    config: str = "user"
    known_hosts: str = ""
    host_keys: str = ""

    @classmethod
    def of(cls, host: Host) -> Target:
        """Raises `UsageError` for an address that isn't of this runner."""
        address = host.address
        name = host.name or address.get("host", "")
        if strange := sorted(set(address) - set(KEYS)):
            raise UsageError(f"host {name!r}: no address of ssh has {', '.join(strange)}")
        target = cls(name, **{key: value for key, value in address.items() if value})
        if not target.host or target.host.startswith("-") or target.user.startswith("-"):
            raise UsageError(f"host {name!r}: {target.host!r} is no host of ssh")
        if target.port and not (target.port.isdigit() and 0 < int(target.port) < 65536):
            raise UsageError(f"host {name!r}: {target.port!r} is no port")
        if target.config not in ("user", "none") or target.host_keys not in ("", "strict", "first-use"):
            raise UsageError(f"host {name!r}: its config or host_keys is none of what ssh's addresses have")
        if target.proxy_jump and target.proxy_command:
            raise UsageError(f"host {name!r}: proxy_jump and proxy_command exclude each other")
        return target

    def hop(self) -> Target | None:
        """The last host before this one; what holds for this one's keys holds for it, too."""
        if not self.proxy_jump or self.proxy_jump == "none":
            return None
        before, _, last = self.proxy_jump.rpartition(",")
        user, _, place = last.strip().removeprefix("ssh://").rpartition("@")
        name, port = place, ""
        if place.startswith("["):  # [IPv6]:PORT
            name, _, port = place[1:].partition("]")
            port = port.removeprefix(":")
        elif place.count(":") == 1:
            name, _, port = place.partition(":")
        inherited = {key: value for key, value in self._asdict().items() if key in _OF_HOPS and value}
        given = {"host": name, "user": user, "port": port, "proxy_jump": before}
        return Target.of(Host(transport="ssh", name=f"{self.name} by {name}", address={**inherited, **given}))


_OF_HOPS = ("key", "config", "known_hosts", "host_keys")
