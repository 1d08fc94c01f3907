"""What `Host.address` holds for the transport `ssh`: the contract between any cloud whose machines have sshd and
this runner. All values are strings; only `host` is required.

| key | value |
|---|---|
| `host` | a name or address, as one would give it to `ssh`: also an alias of the user's ssh config |
| `user` | login name; absent: what the ssh config says, else the local one |
| `port` | absent: what the ssh config says, else 22 |
| `key` | path of a private key on this machine; used besides the agent's only if the server refuses it |
| `proxy_jump` | `[USER@]HOST[:PORT]`, several by commas |
| `proxy_command` | as in ssh_config; at most one of the two |
| `config` | `user` (default): the user's ssh config is read, and what is said here wins over it; `none`: it isn't, as for a new machine of a cloud, which no `Host *` should catch |
| `known_hosts` | path of a file of host keys to use instead of the user's |
| `host_keys` | `strict` (default): a key that isn't known is refused; `first-use`: it is learnt into `known_hosts`, one that changed is refused |

Equal addresses are the same connection.
"""

from __future__ import annotations

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
