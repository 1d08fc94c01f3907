"""YAML with its scalars as they were typed: `password: 0123` is no octal, and a key given twice is no value.

Importing this imports yaml: only who reads a file should.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

_MERGE_AND_NULL = ("tag:yaml.org,2002:merge", "tag:yaml.org,2002:null")


class _TextLoader(yaml.SafeLoader):
    """Plain scalars are text, but for null and merge keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key.value, str) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} is there twice", key.start_mark
                )
            seen.add(key.value if isinstance(key.value, str) else None)
        return super().construct_mapping(node, deep)


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _MERGE_AND_NULL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: str) -> Any:
    """The document as dicts, lists, str and None. Raises `ValueError`, saying the line in one line."""
    try:
        return yaml.load(text, _TextLoader)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from error
