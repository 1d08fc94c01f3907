"""What is said to a node: the script, the protocol's client, and the portable job engine."""
