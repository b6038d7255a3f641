"""kube-scheduler's default filters (1.36) over all nodes at once: the same codes, the same reasons.

`verdicts(cluster, pod)` in `core.filters.run` gives a Verdict per plugin; one module per family of plugins.
Pure functions of a Cluster (`core.filters.cluster`) and a Pod. Nothing here places anything.

How the engine uses it:

- *Static* constraints (name, selector, affinity, taints, features, zones and affinities of bound volumes)
  are masks. They are cached per expression in the inventory's NodeClasses, which the Cluster shares, so they
  last as long as no node's metadata changes. A view in `core.match` may `&` these Rejections' masks into its
  own.
- *Counting* constraints stay with `core.inventory`: requests, the number of pods, and ports.
  What NodeResourcesFit rejects is what `free` rejects; `resources.py` only words it as kube-scheduler does.
- *Domain* constraints (affinity, spread) are counters per label value: `PodIndex.matching` finds the pods of
  a selector through its postings, one `bincount` makes pods per node, another nodes per domain. Who places a
  group keeps one `run.Domains` per kind of member: `allowed()` is the mask of the moment, `place(pod,
  row)` counts a member that got its node, of this kind or another, `place(pod, row, -1)` takes it back when
  a Draft is rewound. So members' constraints among themselves hold, one step per member. `PodIndex.add` and
  `remove` are what a pod that comes or goes costs, a few dictionary entries.
- `Verdict.codes` is all that placing needs. Reasons are put together only for those who ask for them.
"""
