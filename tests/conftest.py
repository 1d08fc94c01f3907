"""Shared by the tests across packages: the `sky` command (from `e2e/`) and real installations of small plugins."""

from __future__ import annotations

import sys
from pathlib import Path

# Test modules are imported by path (importlib mode), so what they share is found by name only here.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "e2e")]
