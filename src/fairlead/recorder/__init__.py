"""Recording what happens on a cluster, whoever schedules: pods, nodes, decisions, and the sniffer's doors.

Composed by `app_recorder`. Must not know `kube`, `store`, `sim` or `api`: rows go out through a sink.
"""
