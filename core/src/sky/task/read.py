"""From the tree of a file to values by field, driven by the table in `sky.task.fields`.

What comes out isn't a task yet: options are still to be applied (`sky.task.build`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sky.errors import UsageError
from sky.task import quantities
from sky.task.environment import check_name
from sky.task.fields import Field, children
from sky.task.model import Autostop, GitSource
from sky.task.nodes import Entry, List, Map, Node, Scalar, plain_value
from sky.task.problems import Problems, did_you_mean, named
from sky.task.resources import place_of
from sky.task.scalars import DEFAULT_IDLE_MINUTES, PARSERS, parse_port

_WORDS = {Scalar: "text", Map: "a map", List: "a list"}


def read_task(root: Node | None, problems: Problems) -> dict[str, Any]:
    """The values of a whole file by field; mistakes go to `problems`, their fields are left out."""
    if root is None or (isinstance(root, Scalar) and root.null):
        return {}
    return _Reader(problems).section(root, "", "")


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def section(self, node: Node, path: str, label: str) -> dict[str, Any]:
        """The fields of a map, by the table's rows below `path`; `label` is what messages call it."""
        known = children(path)
        values: dict[str, Any] = {}
        if not isinstance(node, Map):
            self._problems.add(label, f"must be a map of fields, not {_WORDS[type(node)]}", at=_at(node))
            return values
        for entry in node.entries:
            name = entry.key.text
            inner = f"{label}.{named(name)}" if label else named(name)
            if name not in known:
                right = (key for key, row in known.items() if row.status != "unsupported")
                hint = "" if self._problems.many else did_you_mean(name, right)
                self._problems.add(inner, "unknown field", hint, at=_at(entry.key))
                continue
            self._problems.locate(inner, *_at(entry.key))
            try:
                values[name] = self._field(known[name], entry.value, inner)
            except UsageError as error:
                self._problems.add_error(inner, error, at=_at(entry.value))
        return values

    def _field(self, field: Field, node: Node, label: str) -> Any:
        if isinstance(node, Scalar) and node.null:
            return None
        if field.kind == "any":
            self._problems.add(label, field.refusal)
            return None
        structured = getattr(self, f"_read_{field.kind}", None)
        if structured is not None:
            return structured(field, node, label)
        text = self._text(node)
        if not text.strip():
            return None  # `zone: ""` is how templates leave a field out.
        return PARSERS[field.kind](text)

    def _text(self, node: Node) -> str:
        if not isinstance(node, Scalar):
            raise UsageError(f"must be text, not {_WORDS[type(node)]}")
        return node.text

    # --- kinds that have structure: `_read_` and the kind of the row -----------------------------------

    def _read_section(self, field: Field, node: Node, label: str) -> dict[str, Any]:
        values = place_of(self.section(node, field.path, label))
        if values.get("any_of") and values.get("ordered"):
            raise UsageError("any_of and ordered can't be used together", remedy="keep one")
        return values

    def _read_alternatives(self, field: Field, node: Node, label: str) -> list[dict[str, Any]]:
        if not isinstance(node, List):
            raise UsageError("must be a list of maps")
        found: list[dict[str, Any]] = []
        for number, item in enumerate(node.items):
            inner = f"{label}[{number}]"
            if isinstance(item, Scalar) and item.null:
                found.append({})
                continue
            try:
                values = place_of(self.section(item, "resources", inner))
            except UsageError as error:
                self._problems.add_error(inner, error, at=_at(item))
                continue
            for name in ("any_of", "ordered", "autostop"):
                if values.pop(name, None):
                    self._problems.add(
                        f"{inner}.{name}", "can't be part of an alternative", "set it in resources"
                    )
            found.append(values)
        return found

    def _read_workdir(self, field: Field, node: Node, label: str) -> str | GitSource | None:
        if isinstance(node, Map):
            values = self.section(node, "workdir", label)
            if not values.get("url"):
                self._problems.add(label, "the url of the repository is missing")
                return None
            return GitSource(values["url"], values.get("ref"))
        text = self._text(node)
        return PARSERS["workdir"](text) if text.strip() else None

    def _read_autostop(self, field: Field, node: Node, label: str) -> Autostop | None:
        if not isinstance(node, Map):
            value: Autostop | None = PARSERS["autostop"](self._text(node))
            return value
        values = self.section(node, "resources.autostop", label)
        return Autostop(
            idle_minutes=DEFAULT_IDLE_MINUTES
            if values.get("idle_minutes") is None
            else values["idle_minutes"],
            down=bool(values.get("down")),
            wait_for=values.get("wait_for"),
            hook=values.get("hook"),
            hook_timeout_seconds=values.get("hook_timeout"),
        )

    def _read_accelerators(self, field: Field, node: Node, label: str) -> Any:
        if isinstance(node, Scalar):
            return quantities.parse_accelerators(node.text) if node.text.strip() else None
        found = []
        for item in node.items if isinstance(node, List) else (node,):
            if not isinstance(item, Map):
                found.append(quantities.parse_accelerator(self._text(item)))
                continue
            for entry in item.entries:
                if isinstance(entry.value, Scalar) and entry.value.null:
                    found.append(quantities.parse_accelerator(entry.key.text))  # {T4, L4:2} is a set
                else:
                    found.append(quantities.make_accelerator(entry.key.text, self._text(entry.value)))
        if not found:
            return None
        return tuple(found), isinstance(node, List) and len(found) > 1

    def _read_image(self, field: Field, node: Node, label: str) -> str | None:
        if isinstance(node, Map):
            raise UsageError("a map of regions isn't supported", remedy="use any_of with region and image_id")
        text = self._text(node)
        return PARSERS["image"](text) if text.strip() else None

    def _read_ports(self, field: Field, node: Node, label: str) -> tuple[str, ...]:
        texts = [self._text(item) for item in (node.items if isinstance(node, List) else (node,))]
        return tuple(dict.fromkeys(parse_port(text) for text in texts if text.strip()))

    def _read_labels(self, field: Field, node: Node, label: str) -> dict[str, str]:
        values = {}
        for entry, inner in self._pairs(node, label):
            if isinstance(entry.value, Scalar) and entry.value.null:
                self._problems.add(inner, "has no value", 'write "" for an empty one')
            elif not entry.key.text:
                self._problems.add(inner, "a label needs a name")
            else:
                values[entry.key.text] = self._pair_text(entry, inner)
        return values

    def _read_envs(self, field: Field, node: Node, label: str) -> dict[str, str | None]:
        values: dict[str, str | None] = {}
        for entry, inner in self._pairs(node, label):
            try:
                name = check_name(entry.key.text)
            except UsageError as error:
                self._problems.add_error(label, error, at=_at(entry.key))
                continue
            null = isinstance(entry.value, Scalar) and entry.value.null
            values[name] = None if null else self._pair_text(entry, inner)
        return values

    def _read_mounts(self, field: Field, node: Node, label: str) -> dict[str, str]:
        values = {}
        for entry, inner in self._pairs(node, label):
            if isinstance(entry.value, Map):
                self._problems.add(inner, f"storage is {field.refusal}")
                continue
            source = self._pair_text(entry, inner)
            if not source or not entry.key.text or (isinstance(entry.value, Scalar) and entry.value.null):
                self._problems.add(inner, "needs a path on the nodes and a local path")
            else:
                values[entry.key.text] = source
        return values

    def _read_config(self, field: Field, node: Node, label: str) -> dict[str, Any]:
        if not isinstance(node, Map):
            raise UsageError(f"must be a map, not {_WORDS[type(node)]}")
        value: dict[str, Any] = plain_value(node)
        return value

    def _pairs(self, node: Node, label: str) -> Iterator[tuple[Entry, str]]:
        """The entries of a map, or of a list of maps with one entry each; each with its label."""
        maps = node.items if isinstance(node, List) else (node,)
        seen: set[str] = set()
        for item in maps:
            if not isinstance(item, Map) or (isinstance(node, List) and len(item.entries) != 1):
                # Not quoted: it may be a secret.
                self._problems.add(label, "must be a map of NAME: VALUE", at=_at(item))
                continue
            for entry in item.entries:
                name = entry.key.text
                inner = f"{label}.{named(name)}"
                self._problems.locate(inner, *_at(entry.key))
                if name in seen:
                    self._problems.add(inner, "is here twice")
                seen.add(name)
                yield entry, inner

    def _pair_text(self, entry: Entry, label: str) -> str:
        if isinstance(entry.value, Scalar):
            return entry.value.text
        self._problems.add(label, f"must be text, not {_WORDS[type(entry.value)]}")
        return "?"  # Never used: a problem is recorded.


def _at(node: Node) -> tuple[int, int]:
    return node.line, node.column
