"""The gRPC doors: Fluxion's services for matching, and groups and nodes for kubectl plugins."""
