"""The extender of a stock kube-scheduler: it tells which slot a pod has; the engine has assigned it."""
