"""Fairlead: an HPC-grade batch scheduler for Kubernetes.

ARCHITECTURE.md in the repository's root is the place to start reading.
"""

import os

# Before gRPC is loaded by whatever module. Its fork handlers abort a copy of the process made while a call is
# served; the copies that `runtime.forked` makes never use it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

__version__ = "0.1.0"
