"""The failure vocabulary: every error that crosses the plugin boundary or reaches a user.

An error says what is wrong in one line and what to do in one more (`remedy`). Its class decides the exit
code of the command and what the core does next: try the next offer, retry, or stop. Plugins raise these
and nothing else; anything else that escapes a plugin is reported as a defect of that plugin.
"""

from __future__ import annotations

from typing import ClassVar, Literal

Scope = Literal["", "zone", "region", "cloud"]
"""How much of a cloud an error speaks of: offers inside that scope are skipped when falling over."""


class SkyError(Exception):
    """Anything Sky itself fails with. `message` says what is wrong, `remedy` what to do; one line each."""

    exit_code: ClassVar[int] = 125
    kind: ClassVar[str] = "error"
    """Stable word for `-o json`; documented with the exit codes."""

    def __init__(self, message: str, *, remedy: str = "", scope: Scope = "", retryable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.scope: Scope = scope
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


# --- the user's input --------------------------------------------------------------------------------


class UsageError(SkyError):
    """The command line, a name, a file or a configuration asks for something that can't be."""

    exit_code = 2
    kind = "usage"


class NotSupported(UsageError):
    """A known thing that this version, cloud or transport doesn't do; refused by name, nothing half done."""

    kind = "not_supported"


# --- where to run ------------------------------------------------------------------------------------


class NothingFeasible(SkyError):
    """No enabled cloud can run the task as asked."""

    exit_code = 120
    kind = "nothing_feasible"


class NoCapacity(NothingFeasible):
    """The place can run it, but has no room now. The core tries the next offer."""

    kind = "no_capacity"


class QuotaExceeded(NothingFeasible):
    """A limit of the account or namespace forbids it. The core tries the next offer outside `scope`."""

    kind = "quota"


# --- who ---------------------------------------------------------------------------------------------


class CredentialsError(SkyError):
    """No credentials, or the provider refuses them."""

    exit_code = 121
    kind = "credentials"


class LoginExpired(CredentialsError):
    """Credentials were good and are no longer; `remedy` is the command that logs in again."""

    kind = "login_expired"


class NotPermitted(CredentialsError):
    """The identity is known and may not do this; `message` names the permission."""

    kind = "not_permitted"


# --- reaching hosts ----------------------------------------------------------------------------------


class Unreachable(SkyError):
    """No connection could be made; nothing was started."""

    exit_code = 122
    kind = "unreachable"


class ConnectionLost(SkyError):
    """A connection broke after something was started: what became of it is unknown. Never a success."""

    exit_code = 122
    kind = "connection_lost"


class HostGone(ConnectionLost):
    """The host itself is no more (pod deleted, machine terminated); asking again is useless."""

    kind = "host_gone"


class ProgramMissing(SkyError):
    """The host lacks a program that was to run; `program` names it. Nothing was started."""

    kind = "program_missing"

    def __init__(self, program: str, *, remedy: str = "") -> None:
        super().__init__(f"the host has no {program!r}", remedy=remedy)
        self.program = program


# --- how it ended ------------------------------------------------------------------------------------


class NotYet(SkyError):
    """Asked too early (an address not assigned, a job not started); asking again later may answer."""

    kind = "not_yet"


class Cancelled(SkyError):
    """The user, or the token in the context, ended it."""

    exit_code = 123
    kind = "cancelled"


class TimedOut(SkyError):
    """The deadline passed. `message` names the phase that was running."""

    exit_code = 124
    kind = "timed_out"


class ProvisioningFailed(SkyError):
    """The cloud took the request and then could not fulfil it (image can't be pulled, out of memory, evicted)."""

    kind = "provisioning"


class TransferFailed(SkyError):
    """Files could not be moved; the final names at the target hold the old or the new content, never a part."""

    kind = "transfer"


class PluginError(SkyError):
    """A plugin is missing, broken, incompatible or broke the contract; the message names its distribution."""

    kind = "plugin"
