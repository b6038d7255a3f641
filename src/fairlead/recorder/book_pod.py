"""One pod: what a fact adds to its life, and what is news in it. Pure; called by `recorder.book`.

What was said is in the life itself: a stage's time that is not 0, else `told`. So whatever comes twice, late
or after a restart is said once. In `told`, a container's beginning and end (`start/NAME`, `end/NAME`) and
Ready are times with a small number added: which life of the container it was, or 1 for ready. Must not read
a clock.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from fairlead.model.record import Change, PodLife, Source
from fairlead.wire.life import Condition, PodFact, Run

MOST_TEXT = 1024
"""Characters of a message that are kept: a container may write 4 KiB at its end, and each condition too."""
_SECOND = 1000
_ENDED = ("Succeeded", "Failed")
_TOPOLOGY = "topology.kubernetes.io/"


def seen(life: PodLife | None, fact: PodFact, now: int) -> tuple[PodLife, list[Change]]:
    """The life with this fact in it, and the changes in the order in which they happened."""
    telling = _Telling(life or _born(fact, now), fact, now)
    telling.stages(first=life is None)
    telling.differences(first=life is None)
    telling.runs(init=True)
    telling.conditions("Initialized")
    telling.runs(init=False)
    telling.conditions("Ready")
    telling.end()
    changes = sorted(telling.changes, key=lambda change: change.at)
    return telling.result(), changes


def gone(life: PodLife, version: int, now: int, lost: bool) -> tuple[PodLife, Change]:
    """The last of it: Deleted, or Vanished when it was only found to be gone."""
    life = replace(life, version=version or life.version, deleted=now, lost=lost, last_seen=now)
    return life, _change(life, "Vanished" if lost else "Deleted", now, now)


def same_row(one: PodLife | None, other: PodLife) -> bool:
    """Whether nothing of it is worth a write: a version that brought nothing new is not.

    Unless the row's is one of before the server's versions began anew (0 here): it would seem newer for ever.
    """
    return (
        one is not None
        and one.version > 0
        and replace(other, version=one.version, last_seen=one.last_seen) == one
    )


def _born(fact: PodFact, now: int) -> PodLife:
    return PodLife(fact.uid, fact.namespace, fact.name, created=fact.created or now, first_seen=now)


def _change(life: PodLife, event: str, at: int, now: int, **more: Any) -> Change:
    return Change(
        "Pod", event, at=at, seen=now, source=Source.WATCH, uid=life.uid, namespace=life.namespace,
        name=life.name, node=life.node, scheduler=life.scheduler, version=life.version, **more,
    )  # fmt: skip


class _Telling:
    """What one fact makes of a life. `new` are the columns that it changes."""

    def __init__(self, life: PodLife, fact: PodFact, now: int) -> None:
        self.before, self.fact, self.now = life, fact, now
        self.life = replace(
            life, version=fact.version, scheduler=fact.scheduler, owner_kind=fact.owner_kind,
            owner_name=fact.owner_name, owner_uid=fact.owner_uid, group=fact.group,
            node=fact.node or life.node, phase=fact.phase, reason=fact.reason, restarts=fact.restarts,
            priority=fact.priority, requests=fact.requests, labels=fact.labels, walltime=fact.walltime,
            last_seen=now,
        )  # fmt: skip
        self.told = dict(life.told)
        self.new: dict[str, Any] = {}
        self.changes: list[Change] = []

    def result(self) -> PodLife:
        return replace(self.life, told=self.told, **self.new)

    def say(self, event: str, at: int = 0, **more: Any) -> int:
        """Returns when it was: `at` if somebody says so, else now."""
        at = at or self.now
        self.changes.append(_change(self.life, event, at, self.now, **more))
        return at

    def column(self, name: str) -> int:
        return self.new.get(name) or getattr(self.before, name)

    # -- once in a life ------------------------------------------------------------------------------

    def stages(self, first: bool) -> None:
        """Created, Queued, Bound: what is not in a condition. (Scheduled is; it is needed for Bound.)"""
        fact = self.fact
        if first:
            self.say("Created", self.before.created)
        if not self.column("queued") and not fact.gated:
            self.new["queued"] = self.say("Queued", self.before.created if first else 0)
        chosen = next((c for c in fact.conditions if c.type == "PodScheduled" and c.status == "True"), None)
        if chosen is not None and not self.column("scheduled"):
            self.new["scheduled"] = self.say("Scheduled", chosen.at)
        if fact.node and not self.column("bound"):
            # The API server writes that condition together with the node.
            born_bound = self.before.created if first else 0
            self.new["bound"] = self.say("Bound", chosen.at if chosen is not None else born_bound)

    def end(self) -> None:
        fact = self.fact
        if fact.phase in _ENDED and not self.column("finished"):
            last = max((run.finished for run in fact.runs if run.ended), default=0)
            message = f"{fact.reason}: {fact.message}" if fact.reason and fact.message else fact.reason
            self.new["finished"] = self.say("Finished", last, reason=fact.phase, message=message[:MOST_TEXT])
        if fact.deleting and not self.column("deleting"):
            self.new["deleting"] = self.say("Deleting", fact.deleting)

    # -- whenever it happens -------------------------------------------------------------------------

    def differences(self, first: bool) -> None:
        if first:
            return
        changed = differences(self.before.labels, self.fact.labels)
        if self.fact.node != self.before.node:
            # The API server gives a pod its node's zone together with the node: nobody relabelled it.
            changed = {name: each for name, each in changed.items() if not name.startswith(_TOPOLOGY)}
        if changed:
            self.say("Relabelled", extra={"labels": changed})
        if changed := differences(self.before.requests, self.fact.requests):
            self.say("Resized", extra={"requests": changed})

    def conditions(self, type: str) -> None:
        for condition in self.fact.conditions:
            if condition.type != type:
                continue
            if type == "Ready":
                self._ready(condition)
            elif condition.status == "True" and type not in self.told:
                self.told[type] = self.say(type, condition.at)

    def _ready(self, condition: Condition) -> None:
        """Not ready is only told of one that was, and not of one that has ended: that is said already."""
        ready, last = condition.status == "True", self.told.get("Ready", 0)
        was = last % _SECOND == 1
        if ready and (not was or condition.at > last):
            at = self.say("Ready", condition.at)
            self.new["ready"] = self.column("ready") or at
        elif not ready and was and self.fact.phase not in _ENDED:
            self.say("NotReady", condition.at, reason=condition.reason, message=condition.message[:MOST_TEXT])
        else:
            return
        self.told["Ready"] = max(condition.at, last - last % _SECOND) + ready

    def runs(self, init: bool) -> None:
        for run in self.fact.runs:
            if run.init == init:
                self._run(run)

    def _run(self, run: Run) -> None:
        extra: dict[str, Any] = {"container": run.container}
        if run.init:
            extra["init"] = True
        if run.number:
            extra["restart"] = run.number
        if run.begun and self._is_news(f"start/{run.container}", run.started, run.number):
            at = self.say("ContainerStarted", run.started, extra=extra)
            if not run.init:
                self.new["started"] = min(self.column("started") or at, at)
        if run.ended and self._is_news(f"end/{run.container}", run.finished, run.number):
            extra = {**extra, "exitCode": run.exit_code}
            message = run.message[:MOST_TEXT]
            self.say("ContainerFinished", run.finished, reason=run.reason, message=message, extra=extra)
            if not run.init or run.exit_code:
                self.new["exit_code"] = self._exit_code(run.exit_code)

    def _exit_code(self, code: int) -> int:
        known: int = self.new.get("exit_code", self.before.exit_code)
        return known if known > 0 else code

    def _is_news(self, key: str, at: int, number: int) -> bool:
        """Whether this life of a container is a later one than what was said last; then it is said now.

        By its time or its number: Kubernetes tells whole seconds, or none, clocks are set back, and numbers
        begin anew from 0 when a node has forgotten.
        """
        last = self.told.get(key, 0)
        this = at - at % _SECOND + min(number, _SECOND - 2) + 1
        if this <= last and this % _SECOND <= last % _SECOND:
            return False
        self.told[key] = max(this, last - last % _SECOND + this % _SECOND)
        return True


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What is not the same, each as [before, after]; None where it is not there."""
    if before == after:
        return {}
    names = dict.fromkeys((*before, *after))
    return {
        name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)
    }
