"""A toy batch queue, as small as a place with an engine of its own can be."""
