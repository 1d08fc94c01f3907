"""Every speed figure that the documentation quotes, as a command: `make bench`."""
