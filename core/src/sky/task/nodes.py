"""YAML text as a tree that keeps what was typed: scalars as text, and where each thing is.

Built from parser events rather than from `yaml.compose`, whose C version recurses without a limit: nesting,
aliases and equal keys are checked here, once, and every mistake goes to the same `Problems`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sky.errors import UsageError
from sky.task.problems import Problems, shown
from sky.task.scalars import check_text

MAX_DEPTH = 64
MAX_NODES = 100_000
"""Nodes after every alias is followed: more is an attack or an accident."""

_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?")
_CONSTANTS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_STR_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})


@dataclass(frozen=True, slots=True)
class Scalar:
    text: str
    plain: bool
    """Neither quoted, nor a block, nor tagged as text."""
    line: int
    column: int
    size: int = 1

    @property
    def null(self) -> bool:
        return self.plain and self.text in _NULL


@dataclass(frozen=True, slots=True)
class Entry:
    key: Scalar
    value: Node


@dataclass(frozen=True, slots=True)
class Map:
    entries: tuple[Entry, ...]
    line: int
    column: int
    size: int
    kind: str = "a map"


@dataclass(frozen=True, slots=True)
class List:
    items: tuple[Node, ...]
    line: int
    column: int
    size: int
    kind: str = "a list"


Node = Scalar | Map | List


def plain_value(node: Node) -> Any:
    """Plain data for `config`: JSON's words and numbers get their types, all else stays text as typed."""
    if isinstance(node, Map):
        return {entry.key.text: plain_value(entry.value) for entry in node.entries}
    if isinstance(node, List):
        return [plain_value(item) for item in node.items]
    if not node.plain:
        return node.text
    if node.null:
        return None
    if node.text in _CONSTANTS:
        return _CONSTANTS[node.text]
    if _INTEGER.fullmatch(node.text):
        return int(node.text)
    if _FLOAT.fullmatch(node.text) and math.isfinite(float(node.text)):
        return float(node.text)
    return node.text


class _Stop(Exception):
    """The rest of the text can't be made sense of; the problem has been recorded."""


def parse(text: str, problems: Problems) -> Node | None:
    """The tree of the one document in `text`; None if it's empty, or can't be read (see `problems`)."""
    import yaml

    try:
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return _Composer(problems, events).document()
    except _Stop:
        return None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problems.add("", *_syntax(text, at[0], error.problem or error.context or "can't be read"), at=at)
    except yaml.reader.ReaderError:
        # `position` counts bytes or characters, by which parser it was.
        bad = _NOT_YAML.search(text)
        position = bad.start() if bad else 0
        at = (text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))
        problems.add("", "holds a character that YAML doesn't allow", at=at)
    return None


def _syntax(text: str, line: int, problem: str) -> tuple[str, str]:
    lines = text.splitlines()
    indentation = re.match(r"\s*", lines[line - 1] if 0 < line <= len(lines) else "")
    if indentation and "\t" in indentation[0]:
        return "a tab is used for indentation", "YAML wants spaces"
    # Some of the parser's messages quote the text, which may be a secret.
    return "not valid YAML: " + re.sub(r"\s*['\"][^'\"<]{2,}['\"]", "", problem), ""


class _Composer:
    def __init__(self, problems: Problems, events: Iterator[Any]) -> None:
        self._problems = problems
        self._events = events
        self._anchors: dict[str, Node] = {}
        self._open: set[str] = set()

    def document(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            name = type(event).__name__
            if name == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    self._stop("a second document begins here", "a task file is one document", event)
            elif name not in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                root = self._node(event, 0)
        return root

    def _node(self, event: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._stop(f"nested more than {MAX_DEPTH} levels deep", "", event)
        name = type(event).__name__
        if name == "AliasEvent":
            return self._alias(event)
        anchor = event.anchor
        if anchor:
            self._open.add(anchor)
        node: Node
        if name == "ScalarEvent":
            node = self._scalar(event)
        else:
            self._check_tag(event, frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}))
            node = self._map(event, depth) if name == "MappingStartEvent" else self._list(event, depth)
        if node.size > MAX_NODES:
            self._stop("more values than a task file can hold", "aliases multiply them", event)
        if anchor:
            self._open.discard(anchor)
            self._anchors[anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        if event.anchor in self._open:
            self._stop("an alias refers to the value that it is part of", "", event)
        if event.anchor not in self._anchors:
            self._stop("an alias refers to no anchor above it", "quote text that begins with *", event)
        return self._anchors[event.anchor]

    def _scalar(self, event: Any) -> Scalar:
        self._check_tag(event, _STR_TAGS)
        try:
            check_text(event.value)
        except UsageError as error:
            self._problems.add_error("", error, at=_at(event))
        plain = bool(event.implicit[0]) and event.tag is None
        return Scalar(event.value, plain, *_at(event))

    def _list(self, start: Any, depth: int) -> List:
        items = []
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            items.append(self._node(event, depth + 1))
        return List(tuple(items), *_at(start), size=1 + sum(item.size for item in items))

    def _map(self, start: Any, depth: int) -> Map:
        own: dict[str, Entry] = {}
        merged: list[Map] = []
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            if not isinstance(key, Scalar):
                self._problems.add("", f"the name of a field is {key.kind}", "it must be text", at=_at(event))
            elif key.plain and key.text == "<<":
                merged += self._merged(value, event)
            elif key.text in own:
                first = own[key.text].key
                self._problems.add(
                    "", f"{shown(key.text)} is here twice", f"first in line {first.line}", at=_at(event)
                )
            else:
                own[key.text] = Entry(key, value)
        for source in merged:
            for entry in source.entries:
                own.setdefault(entry.key.text, entry)
        entries = tuple(own.values())
        return Map(entries, *_at(start), size=1 + sum(1 + entry.value.size for entry in entries))

    def _merged(self, value: Node, event: Any) -> list[Map]:
        sources = value.items if isinstance(value, List) else (value,)
        maps = [source for source in sources if isinstance(source, Map)]
        if len(maps) != len(sources):
            self._problems.add("", "<< merges maps, and this isn't one", at=_at(event))
        return maps

    def _check_tag(self, event: Any, known: frozenset[str]) -> None:
        if event.tag is not None and event.tag not in known:
            self._problems.add("", "a tag that Sky doesn't know", "only !!str may be used", at=_at(event))

    def _stop(self, message: str, suggestion: str, event: Any) -> None:
        self._problems.add("", message, suggestion, at=_at(event))
        raise _Stop


def _at(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
