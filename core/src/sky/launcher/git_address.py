"""The address of a repository, with a password taken out of it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from sky.errors import UsageError

_HELPER = (
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" '
    '"$SKY_GIT_USERNAME" "$SKY_GIT_PASSWORD"; }; f'
)


@dataclass(frozen=True, slots=True)
class Address:
    """What git is given."""

    clean: str
    """Without a password."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of git by which it finds the password, for this host alone."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where they find it."""

    @staticmethod
    def parse(url: str, base_dir: str = "") -> Address:
        """Of any form that git takes; a path starts from `base_dir`. Raises `UsageError`; never quotes `url`."""
        if url.startswith("-") or not url.isprintable():
            raise UsageError("workdir: that can't be the url of a repository")
        if "://" not in url:
            if re.match(r"[^/]+:", url) and not url.startswith("~"):
                return Address(url)  # host:path, as scp writes it
            return Address(os.path.normpath(os.path.join(base_dir, os.path.expanduser(url))))  # noqa: PTH111, PTH118
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise UsageError("workdir: that can't be the url of a repository") from error
        user, _, host = parts.netloc.rpartition("@")
        name, colon, password = user.partition(":")
        if parts.scheme not in ("http", "https"):
            return Address(urlunsplit(parts._replace(netloc=f"{name}@{host}")) if colon else url)
        clean = urlunsplit(parts._replace(netloc=host))
        section = f"credential.{parts.scheme}://{host}"
        if not colon:
            # It may be a token as well as a name.
            return Address(clean, ((f"{section}.username", unquote(name)),) if name else ())
        return Address(
            clean,
            # The empty one takes back what the user has set for the host.
            ((f"{section}.helper", ""), (f"{section}.helper", _HELPER)),
            {"SKY_GIT_USERNAME": unquote(name), "SKY_GIT_PASSWORD": unquote(password)},
        )

    def listing(self, purpose: str) -> str:
        """`purpose`, and to the end of the line a command that asks the server what it has.

        What may be secret isn't in it: it's for the user to fill in, and said.
        """
        query = self._query()
        place = self.clean.replace(f"?{query}", "?QUERY") if query else self.clean
        words = ("git", *(("-c", "credential.helper=") if self.settings else ()), "ls-remote", place)
        said = [purpose]
        said += ["typing the url's login when it asks"] * bool(self.settings)
        said += ["with the url's own query for QUERY"] * bool(query)
        return f"{', '.join(said)}: {shlex.join(words)}"

    def masked(self, text: str) -> str:
        """What git said, should it have quoted a secret."""
        password = self.environ.get("SKY_GIT_PASSWORD")
        for secret in ({password, quote(password)} if password else set()) | {self._query()} - {""}:
            text = text.replace(secret, "***")
        return re.sub(r"(https?://)[^/\s'@]+@", r"\1***@", text)

    def _query(self) -> str:
        """It may hold a token."""
        return self.clean.partition("?")[2] if "://" in self.clean else ""
