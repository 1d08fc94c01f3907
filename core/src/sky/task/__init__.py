"""The task: what a user asks for, read from a file, from the command line, or from both."""
