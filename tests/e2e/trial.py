"""One trial: pods are placed step by step on a real cluster, then every placement is judged.

Used by test_matching_live.py. A step is over when all of its groups run; the judge
is told the steps in their order, so a placement is held against what was there then and not against what came
later. Its pods run for ever and are gone afterwards.
"""

import random
import re
from collections.abc import Iterable
from itertools import count
from typing import Any, Literal, NamedTuple

from judge import PODS, Judge, Object, Verdict, key_of, list_of, placed

from fairlead.localcluster import Cluster
from live import Scheduler, until

SECONDS = 120.0
GONE = 404
_numbers = count(1)


def group_of(pod: Object) -> str:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("fairlead.dev/group") or pod["metadata"]["name"])


def same_reason(ours: str, theirs: str) -> bool:
    """Whether what Fairlead says of a pod that waits is among what kube-scheduler says of the nodes."""
    if reasons := re.findall(r"node\(s\) ([^,]+)", ours):
        return any(each in theirs for each in reasons)
    if re.search(r"short of|the largest matching node", ours):
        return re.search(r"Insufficient|Too many pods|free ports", theirs) is not None
    return "no node matches" in ours and re.search(r"affinity/selector|taint|unschedul", theirs) is not None


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


class Step(NamedTuple):
    """What became of a group, with its pods as they were then, and why it had to wait."""

    kind: Literal["placed", "waited", "gone"]
    pods: list[Object]
    why: str = ""


class Trial:
    """Namespaces of its own on a shared cluster; `space` is where pods go that name no other."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler, judge: Judge) -> None:
        self.cluster, self.scheduler, self.judge = cluster, scheduler, judge
        self._steps: list[Step] = []
        self._made: list[str] = []
        self._spaces: list[str] = []
        self.space = self.namespace()

    # -- before ------------------------------------------------------------------------------------------

    def namespace(self, **labels: str) -> str:
        """A new namespace with these labels."""
        name = f"trial-{next(_numbers)}"
        self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(lambda: self.cluster.client.get(account).ok, "the namespace's account", pause=0.01)
        self._spaces.append(name)
        return name

    def create(self, path: str, *things: Object) -> None:
        for thing in things:
            answer = self.cluster.client.post(path, thing)
            assert answer.ok, f"{path} {thing['metadata']['name']}: {answer.reason()}"
            if "namespaces" not in path:
                self._made.append(f"{path}/{thing['metadata']['name']}")

    def claims(self, *things: Object) -> None:
        self.create(f"/api/v1/namespaces/{self.space}/persistentvolumeclaims", *things)

    def wait_bound(self, *names: str) -> None:
        """Until these claims have volumes."""

        def bound() -> bool:
            found = {
                each["metadata"]["name"]: each for each in list_of(self.cluster, "persistentvolumeclaims")
            }
            return all(found[name]["status"]["phase"] == "Bound" for name in names)

        until(bound, f"the claims {', '.join(names)} to be bound", SECONDS)

    # -- placing -----------------------------------------------------------------------------------------

    def submit(self, pods: Iterable[Object]) -> list[str]:
        """Create the pods; their namespace/name."""
        keys: list[str] = []
        for pod in pods:
            space = pod["metadata"].setdefault("namespace", self.space)
            self.create(f"/api/v1/namespaces/{space}/pods", pod)
            keys.append(key_of(pod))
        return keys

    def place(self, *pods: Object) -> None:
        """One step: Fairlead places all of these groups, in any order."""
        self.submit(pods)
        wanted = list(dict.fromkeys((pod["metadata"]["namespace"], group_of(pod)) for pod in pods))
        rows = {each: self._row(*each, {"running"}) for each in wanted}
        wanted.sort(key=lambda each: (rows[each]["granted_at"], rows[each]["first_seen"]))
        members: dict[tuple[str, str], list[Object]] = {each: [] for each in wanted}
        for pod in pods:
            members[pod["metadata"]["namespace"], group_of(pod)].append(pod)
        self._steps += [Step("placed", self._now(group)) for group in members.values()]

    def place_theirs(self, *pods: Object) -> None:
        """One step: kube-scheduler places these one after the other."""
        assert self.offer_theirs(*pods) == len(pods), "kube-scheduler could not place all of its pods"

    def offer_theirs(self, *pods: Object) -> int:
        """The same, but what kube-scheduler has no node for is taken away. How many were placed."""
        before = len(self._steps)
        for pod in pods:
            pod["spec"]["schedulerName"] = "default-scheduler"
            key = self.submit([pod])[0]
            path = _path(pod)
            found = until(
                lambda path=path: self._decided(path), f"kube-scheduler to decide on {key}", SECONDS
            )
            if found["spec"].get("nodeName"):
                self._steps.append(Step("placed", [found]))
            else:
                self._delete(path)
        return len(self._steps) - before

    def _decided(self, path: str) -> Object | None:
        found: Object = self.cluster.client.get(path).json()
        return found if found["status"].get("conditions") else None

    def offer(self, *groups: list[Object]) -> int:
        """A step for each group, which need not be placed: who has to wait is taken away before the next
        comes, for that may be what it waits for. How many were placed.

        `judged` asks also about single pods that were not. Nothing is said about groups: there it depends on
        where the first members go whether there is a node for the last.
        """
        return sum([self._offered(group) for group in groups])

    def _offered(self, group: list[Object]) -> bool:
        self.submit(group)
        space, name = group[0]["metadata"]["namespace"], group_of(group[0])
        row = self._row(space, name, {"running", "waiting", "rejected"}, unless=("", "Queued"))
        if row["state"] == "running":
            self._steps.append(Step("placed", self._now(group)))
            return True
        self._steps.append(Step("waited", self._now(group), row["text"]))
        self._take_away(group)
        return False

    def end(self, draw: random.Random) -> None:
        """One step: a group that runs, drawn from all of them, is deleted."""
        gone = [step.pods[0]["metadata"]["uid"] for step in self._steps if step.kind == "gone"]
        running = [
            step.pods
            for step in self._steps
            if step.kind == "placed" and step.pods[0]["metadata"]["uid"] not in gone
        ]
        pods = draw.choice(running)
        self._take_away(pods)
        self._steps.append(Step("gone", pods))

    def _take_away(self, pods: Iterable[Object]) -> None:
        paths = [_path(pod) for pod in pods]
        for path in paths:
            self._delete(path)
        until(lambda: all(self._is_gone(path) for path in paths), "pods to be gone", SECONDS)

    def _is_gone(self, path: str) -> bool:
        """The API server says so; no answer is none."""
        return self.cluster.client.get(path).status == GONE

    def _now(self, pods: Iterable[Object]) -> list[Object]:
        return [self.cluster.client.get(_path(pod)).json() for pod in pods]

    def node_of(self, key: str) -> str:
        """Where a pod (namespace/name, or a name in the trial's own namespace) is; "" if nowhere."""
        space, _, name = key.rpartition("/")
        answer = self.cluster.client.get(f"/api/v1/namespaces/{space or self.space}/pods/{name}")
        assert answer.ok, f"{key}: {answer.reason()}"
        return str(answer.json()["spec"].get("nodeName", ""))

    def nodes_of(self, *names: str) -> list[str]:
        return [self.node_of(name) for name in names]

    def members(self, name: str) -> list[str]:
        """The nodes of a group's members."""
        found = {key_of(pod): pod["spec"].get("nodeName", "") for pod in list_of(self.cluster, PODS)
                 if group_of(pod) == name and pod["metadata"]["namespace"] in self._spaces}  # fmt: skip
        return [found[key] for key in sorted(found)]

    def _row(
        self, space: str, name: str, states: set[str], words: str = "", unless: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The row of a group once it is in one of these states, with these words and no such reason."""
        last: dict[str, Any] = {}

        def look() -> bool:
            row = self.scheduler.groups(space).get(name)
            last.update(row or {})
            assert not row or row["state"] in {*states, "assembling", "waiting", "starting", "running"}, row
            if not row or row["state"] not in states or (row["state"] == "waiting" and row["why"] in unless):
                return False
            return re.search(words, row["text"]) is not None

        try:
            until(look, patience=SECONDS)
        except AssertionError as error:
            short = {
                key: last.get(key) for key in ("state", "why", "text", "nodes", "size", "seen", "broken")
            }
            raise AssertionError(f"{space}/{name} is not {states} with {words!r}: {short}") from error
        return last

    # -- judging -----------------------------------------------------------------------------------------

    def judged(self) -> dict[str, Verdict]:
        """What kube-scheduler says of every placement, by namespace/name; a refusal is a failure."""
        self.wait_bound(*self._claimed())
        self.judge.copy(self.cluster)
        found: list[Verdict] = []
        told: list[str] = []
        for step in self._steps:
            if step.kind == "placed":
                found += self.judge.verdicts(step.pods)
            elif step.kind == "gone":
                for pod in step.pods:
                    self.judge.remove(pod)
            elif len(step.pods) == 1:
                verdict = self.judge.ask(step.pods[0])
                if verdict.feasible or not same_reason(step.why, verdict.words):
                    told.append(
                        f"{verdict.pod} waits: {step.why}; {verdict.words} {sorted(verdict.feasible)}"
                    )
        told += [f"{each.pod} on {each.node}: {each.refused}" for each in found if not each.allowed]
        assert not told, "kube-scheduler says otherwise:\n" + "\n".join(told)
        return {each.pod: each for each in found}

    def _claimed(self) -> list[str]:
        """Claims of pods that are placed: by now they have volumes."""
        volumes = [each for pod in placed(list_of(self.cluster, PODS)) for each in pod["spec"]["volumes"]]
        found = (each.get("persistentVolumeClaim") for each in volumes)
        return [each["claimName"] for each in found if each]

    def waits(self, pod: Object, words: str, *states: str) -> None:
        """After `judged`: neither Fairlead nor kube-scheduler has a node for this pod; Fairlead says why."""
        keys = self.submit([pod])
        space, _, name = keys[0].partition("/")
        self._row(space, name, set(states or ("waiting", "rejected")), words)
        path = f"/api/v1/namespaces/{space}/pods/{name}"
        verdict = self.judge.ask(self.cluster.client.get(path).json())
        assert verdict.feasible == frozenset(), f"{name} waits ({words}) and could go to {verdict.feasible}"
        assert not self.node_of(keys[0])
        self._delete(path)

    # -- afterwards --------------------------------------------------------------------------------------

    def clear(self) -> None:
        """All that the trial has made is gone, but for its empty namespaces."""
        for space in self._spaces:
            for kind in ("pods", "persistentvolumeclaims"):
                self._delete(f"/api/v1/namespaces/{space}/{kind}")
        for path in self._made:
            self._delete(path)
        until(lambda: not self._left(), "what the trial has made to be gone", SECONDS)

    def _left(self) -> bool:
        found = [*list_of(self.cluster, PODS), *list_of(self.cluster, "persistentvolumeclaims")]
        return any(each["metadata"]["namespace"] in self._spaces for each in found) or any(
            not self._is_gone(path) for path in self._made
        )

    def _delete(self, path: str) -> None:
        answer = self.cluster.client.request("DELETE", path, {"gracePeriodSeconds": 0})
        assert answer.ok or answer.status == GONE, answer.reason()
