"""Masks over label columns against an evaluator that looks at one node at a time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.labels import NodeClasses
from fairlead.model.node import Node, Taint
from fairlead.model.pod import Toleration
from fairlead.model.selector import Expression, Operator

keys = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(
    ["", "x", "y", "1", "2", "-3", "+4", "007", "9223372036854775807", "9223372036854775808", "1.5"]
)
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
taint_keys = st.sampled_from(["gpu", "team", "node.kubernetes.io/unreachable"])
NODES = st.lists(
    st.builds(
        lambda labels, taints, *flags: (labels, tuple(taints), *flags),
        st.dictionaries(keys, values, max_size=3),
        st.lists(st.builds(Taint, taint_keys, st.sampled_from(["", "x"]), effects), max_size=2),
        st.booleans(), st.booleans(), st.booleans(),
    ),
    max_size=5,
)  # fmt: skip
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, op, vs: Expression(key, op, tuple(vs)),
        keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]),
        st.lists(values, min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, op, v: Expression(key, op, (v,)),
        keys,
        st.sampled_from([Operator.GT, Operator.LT]),
        values,
    ),
    st.builds(
        lambda op, name: Expression("metadata.name", op, (name,), True),
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sampled_from(["n0", "n1", "n9"]),
    ),
)
TOLERATIONS = st.lists(
    st.builds(
        Toleration,
        st.sampled_from(
            ["", "gpu", "team", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable"]
        ),
        st.sampled_from(["", "Equal", "Exists", "Gt"]),
        st.sampled_from(["", "x"]),
        st.sampled_from(["", "NoSchedule", "NoExecute"]),
    ),
    max_size=3,
)


def number(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if -(2**63) <= value < 2**63 else None


def holds(e: Expression, name: str, labels: dict[str, str]) -> bool:
    if e.field:
        return (name in e.values) == (e.operator == Operator.IN)
    if any(each[:1] in ("+", "-") for each in e.values):  # no value of a label: the whole term is in error
        return False
    has, value = e.key in labels, labels.get(e.key, "")
    match e.operator:
        case Operator.IN:
            return has and value in e.values
        case Operator.NOT_IN:
            return not has or value not in e.values
        case Operator.EXISTS:
            return has
        case Operator.DOES_NOT_EXIST:
            return not has
        case _:
            left, right = number(value), number(e.values[0])
            if not has or left is None or right is None:
                return False
            return left > right if e.operator == Operator.GT else left < right


def tolerated(tolerations: list[Toleration], key: str, value: str, effect: str) -> bool:
    for t in tolerations:
        if t.effect not in ("", effect):
            continue
        if t.operator == "Exists" and t.key in ("", key):
            return True
        if t.operator in ("", "Equal") and t.key == key and t.value == value and t.key:
            return True
    return False


@settings(max_examples=500)
@given(
    NODES,
    st.lists(EXPRESSIONS, max_size=2),
    st.lists(st.lists(EXPRESSIONS, max_size=2), max_size=2),
    TOLERATIONS,
    st.data(),
)
def test_masks_equal_one_look_at_each_node(
    nodes: list,
    selector: list[Expression],
    affinity: list[list[Expression]],
    tolerations: list,
    data: st.DataObject,
):
    gone = [data.draw(st.booleans()) for _ in nodes]
    made = [
        Node(f"u{i}", f"n{i}", i, (), labels, taints, unschedulable, ready, deleting)
        for i, (labels, taints, unschedulable, ready, deleting) in enumerate(nodes)
    ]
    classes = NodeClasses(made, gone)
    constraints = (tuple(selector), tuple(tuple(term) for term in affinity), tuple(tolerations))
    now, nominal = classes.now(constraints), classes.nominal(constraints)
    for i, node in enumerate(made):
        chosen = all(holds(e, node.name, node.labels) for e in selector)
        if affinity:
            chosen = chosen and any(
                term and all(holds(e, node.name, node.labels) for e in term) for term in affinity
            )
        hard = [t for t in node.taints if t.effect != "PreferNoSchedule"]
        lasting = [t for t in hard if not t.key.startswith("node.kubernetes.io/")]
        assert nominal[i] == (
            chosen and all(tolerated(tolerations, t.key, t.value, t.effect) for t in lasting)
        )
        present = not gone[i] and not node.deleting
        present = present and all(tolerated(tolerations, t.key, t.value, t.effect) for t in hard)
        for here, key in ((not node.ready, "not-ready"), (node.unschedulable, "unschedulable")):
            if here:
                present = present and tolerated(tolerations, f"node.kubernetes.io/{key}", "", "NoSchedule")
        assert now[i] == (chosen and present), (node, constraints)


def test_a_node_that_is_being_deleted_says_nothing_of_others_with_the_same_taints():
    made = [Node(f"u{i}", f"n{i}", i, (), {}, (), False, True, i == 1) for i in range(3)]
    for order in (made, made[::-1], [made[1], made[0], made[2]]):
        now = NodeClasses(order, [False] * 3).now(((), (), ()))
        assert [node.name for node, open_ in zip(order, now, strict=True) if not open_] == ["n1"]
