"""Kubernetes objects as they are written, and what they mean to the engine: structs, requests, shapes."""
