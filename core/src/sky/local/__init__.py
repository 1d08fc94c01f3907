"""The embedded cloud: processes on this Linux machine, one directory for each node."""
