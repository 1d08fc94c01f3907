"""Kubernetes for Sky: pods as nodes, reached by the API server's exec channel."""
