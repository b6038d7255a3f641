"""What a pod takes from a node, against kube-scheduler's own verdicts (NodeResourcesFit, NodePorts).

Each case gives nodes, pods on them and one pod to place. Amounts come from our translation alone; the verdict
must be kube-scheduler's, with the resources it names. `tests/data/kube/fit.jsonl` holds a few of our own.
"""

import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.kube import translate
from fairlead.model.event import NodeSeen, PodSeen
from fairlead.model.node import Node
from fairlead.model.pod import Pod
from fairlead.model.rules import EVERY_ADDRESS

OWN = Path(__file__).parent.parent / "data" / "kube" / "fit.jsonl"
TOO_MANY = "Too many pods"


def pod(thing: dict[str, Any]) -> Pod:
    event = translate.pod_seen(json.dumps(thing).encode(), pytest.fail)
    assert isinstance(event, PodSeen)
    return event.pod


def node(thing: dict[str, Any]) -> Node:
    event = translate.node_seen(json.dumps(thing).encode(), pytest.fail)
    assert isinstance(event, NodeSeen)
    return event.node


def held(case: dict[str, Any]) -> dict[str, Counter[str]]:
    """What the existing pods hold, by node: all that are bound and have not ended."""
    result: dict[str, Counter[str]] = {}
    for thing in case["pods"]:
        seen = pod(thing)
        if seen.node and not seen.ended:
            result.setdefault(seen.node, Counter()).update(dict(seen.shape.requests))
    return result


def everywhere(name: str) -> int:
    """How much of a host port every node has."""
    return 0 if not name.startswith("port:") else 1 if "@" in name else EVERY_ADDRESS


def refusals(case: dict[str, Any]) -> dict[str, set[str]]:
    """Node -> the resources it is short of, by our translation; `ports` for a host port."""
    wanted = pod(case["pod"]).shape.requests
    taken = held(case)
    result: dict[str, set[str]] = {}
    for thing in case["nodes"]:
        seen = node(thing)
        offered, used = dict(seen.allocatable), taken.get(seen.name, Counter())
        short = {
            name.split(":")[0].replace("port", "ports")
            for name, amount in wanted
            if amount > (everywhere(name) or offered.get(name, 0)) - used[name]
        }
        if short:
            result[seen.name] = short
    return result


def expected(case: dict[str, Any]) -> dict[str, set[str]]:
    result: dict[str, set[str]] = {}
    for name, verdict in case["expect"]["filter"].get("NodeResourcesFit", {}).items():
        words = {
            "pods" if reason == TOO_MANY else reason.removeprefix("Insufficient ")
            for reason in verdict["reasons"]
        }
        result.setdefault(name, set()).update(words)
    return result


def check(cases: Iterator[dict[str, Any]]) -> Counter[str]:
    """Fails at the first difference."""
    seen: Counter[str] = Counter()
    for case in cases:
        ours = refusals(case)
        fit = {name: short - {"ports"} for name, short in ours.items() if short - {"ports"}}
        assert fit == expected(case), case["id"]
        ports = {name for name, short in ours.items() if "ports" in short}
        assert ports == set(case["expect"]["filter"].get("NodePorts", {})), case["id"]
        seen["cases"] += 1
        seen["refused"] += sum(map(len, fit.values()))
        seen["ports"] += len(ports)
    return seen


def test_own_cases_of_fit() -> None:
    seen = check(json.loads(line) for line in OWN.read_text().splitlines() if line)
    assert seen["cases"] >= 4 and seen["refused"] and seen["ports"]


def test_requests_equal_those_of_kube_scheduler(oracle_data: Callable[[str], Path]) -> None:
    with lzma.open(oracle_data("parity/cases.jsonl.xz"), "rt", encoding="utf-8") as lines:
        seen = check(json.loads(line) for line in lines)
    assert seen["cases"] > 400 and seen["refused"] > 100 and seen["ports"] >= 20
