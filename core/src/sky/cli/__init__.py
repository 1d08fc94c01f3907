"""The command line: `main` finds a command, each module holds a few, `output` and `options` are shared."""
