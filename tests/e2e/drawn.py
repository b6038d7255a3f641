"""Groups of pods with constraints drawn at random; the same seed draws the same groups.

Used by test_matching_live.py, on the nodes of testbed.py. Most constraints are loose enough for most groups
to be placed; labels are few, so that groups mind each other often.
"""

import random
from typing import Any

from judge import Object
from testbed import (
    AGE,
    BATCH,
    DISK,
    GPU,
    HOST,
    NODES,
    RACK,
    ZONE,
    apart,
    gang,
    host_port,
    labelled,
    near,
    of_group,
    pod,
    spread,
    term,
    to_nodes,
    tolerating,
)

APPS, KEYS = "xyz", (HOST, RACK, ZONE)


class Drawn:
    """Draws groups for two namespaces, the second of which has the label team=two."""

    def __init__(self, seed: int, spaces: tuple[str, str]) -> None:
        self.random = random.Random(seed)
        self._spaces = spaces
        self._number = 0

    def group(self, most: int = 4) -> list[Object]:
        """One group: equal members, or now and then unlike ones."""
        self._number += 1
        name, size = f"g{self._number:02}", self.random.randint(1, most)
        if size > 1 and self._maybe(0.3):
            members = of_group(
                name, *(pod(f"{name}-{i}", self._labels(), **self._spec()) for i in range(size))
            )
        else:
            members = gang(name, size, self._labels(), **self._spec())
        space = self.random.choice(self._spaces)
        for each in members:
            each["metadata"]["namespace"] = space
        return members

    def _maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def _labels(self) -> dict[str, str]:
        return {"app": self.random.choice(APPS), "rev": self.random.choice("12")}

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"requests": self._requests(), "affinity": {}}
        if self._maybe(0.2):
            spec["nodeSelector"] = self.random.choice([{DISK: "ssd"}, {DISK: "hdd"}, {ZONE: "b"}])
        if self._maybe(0.3):
            spec["affinity"] |= self._to_nodes()
        if self._maybe(0.3):
            spec["affinity"] |= near(self._term())
        if self._maybe(0.4):
            spec["affinity"] |= apart(*(self._term() for _ in range(self.random.randint(1, 2))))
        if self._maybe(0.4):
            constraints = {each["topologyKey"]: each for each in (self._spread(), self._spread())}
            spec["topologySpreadConstraints"] = list(constraints.values())
        if self._maybe(0.3):
            spec["tolerations"] = tolerating(BATCH)
        if self._maybe(0.2):
            address = self.random.choice(["", "", "10.0.0.1", "10.0.0.2"])
            spec["ports"] = [host_port(self.random.choice([8080, 8081]), address)]
        return spec

    def _requests(self) -> dict[str, str]:
        requests = {"cpu": self.random.choice(["100m", "500m", "2", "5"])}
        if self._maybe(0.2):
            requests[GPU] = self.random.choice("12")
        return requests

    def _to_nodes(self) -> Object:
        return to_nodes(
            self.random.choice(
                [
                    (ZONE, "In", ["a", "c"]),
                    (ZONE, "NotIn", ["a"]),
                    (AGE, "Exists", []),
                    (AGE, "DoesNotExist", []),
                    (AGE, "Gt", ["2"]),
                    (AGE, "Lt", ["5"]),
                    (HOST, "NotIn", self.random.sample(NODES, 5)),
                ]
            )
        )

    def _term(self) -> Object:
        found = term(self.random.choice(KEYS), **labelled(app=self.random.choice(APPS)))
        where = self.random.random()
        if where < 0.2:
            found["namespaces"] = list(self._spaces)
        elif where < 0.3:
            found["namespaceSelector"] = {"matchLabels": {"team": "two"}}
        elif where < 0.4:
            found["namespaceSelector"] = {}
        if self._maybe(0.2):
            found[self.random.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["rev"]
        return found

    def _spread(self) -> Object:
        key = self.random.choice(KEYS)
        found = spread(key, self.random.choice([1, 1, 2, 3]), **labelled(app=self.random.choice(APPS)))
        if self._maybe(0.2):
            found["minDomains"] = self.random.randint(1, 4)
        if self._maybe(0.2):
            found["matchLabelKeys"] = ["rev"]
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self._maybe(0.3):
                found[policy] = self.random.choice(["Honor", "Ignore"])
        return found
