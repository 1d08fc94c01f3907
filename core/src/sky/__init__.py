"""Sky: launch a task on the cheapest place that can run it."""

__version__ = "0.1.0"
