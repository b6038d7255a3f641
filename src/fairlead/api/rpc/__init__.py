"""The gRPC doors: Fluxion's services for matching, and groups and nodes for kubectl plugins."""

import os

# Before the library is loaded. Its fork handlers abort a copy of the process made while a call is served; the
# copies that `runtime.forked` makes never use it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
