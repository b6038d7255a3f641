"""Fairlead: an HPC-grade batch scheduler for Kubernetes.

ARCHITECTURE.md in the repository's root is the place to start reading.
"""

__version__ = "0.1.0"
