"""Runs an engine against ports: loop, planner, clock, recording, configuration, metrics."""
