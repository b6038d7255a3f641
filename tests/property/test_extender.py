"""Whatever an extender is sent, the answer takes no node away; or it is refused, and nothing is recorded."""

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.record import Change
from fairlead.recorder.extender import MOST_NAMES, Extender, NotUnderstood

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)
META = st.fixed_dictionaries({}, optional={"name": JSON, "uid": JSON, "resourceVersion": JSON})
POD = st.fixed_dictionaries({"metadata": META}, optional={"spec": JSON, "status": JSON})


def extender(rows: list[Change]) -> Extender:
    return Extender(rows.extend, lambda: 5)


@given(names=st.lists(st.text(max_size=12), max_size=60), ascii_only=st.booleans())
def test_RB8_the_same_nodes_come_back(names: list[str], ascii_only: bool):
    rows: list[Change] = []
    body = {"Pod": {"metadata": {"uid": "u"}}, "Nodes": None, "NodeNames": names}
    answer = extender(rows).filter(json.dumps(body, ensure_ascii=ascii_only).encode())
    assert json.loads(answer) == {"NodeNames": names, "FailedNodes": {}, "Error": ""}
    extra = rows[0].extra or {}
    assert (extra["count"], extra.get("candidates", extra.get("sample"))) == (len(names), names[:MOST_NAMES])


@given(
    body=st.binary(max_size=60)
    | JSON.map(lambda each: json.dumps(each).encode())
    | st.fixed_dictionaries({"Pod": POD}, optional={"Nodes": JSON, "NodeNames": JSON}).map(
        lambda each: json.dumps(each).encode()
    )
)
def test_what_is_not_understood_is_not_recorded(body: bytes):
    rows: list[Change] = []
    asked = extender(rows)
    answers = 0
    for ask in (asked.filter, asked.prioritize):
        with contextlib.suppress(NotUnderstood):
            json.loads(ask(body))
            answers += 1
    assert len(rows) == answers
