"""Live throughput on one control plane: Fairlead, kube-scheduler and a null scheduler, interleaved."""
