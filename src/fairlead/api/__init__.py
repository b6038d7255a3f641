"""The HTTP server: queue, explain, nodes, health and metrics, read only."""
