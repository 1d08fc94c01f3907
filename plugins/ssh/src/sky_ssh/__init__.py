"""SSH for Sky: machines of a pool as a cloud, and the runner for whatever speaks SSH."""
