from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KIND_UNSPECIFIED: _ClassVar[Kind]
    QUEUED: _ClassVar[Kind]
    DEQUEUED: _ClassVar[Kind]
    PREFILTER: _ClassVar[Kind]
    FILTER: _ClassVar[Kind]
    SCORE: _ClassVar[Kind]
    RESERVE: _ClassVar[Kind]
    UNRESERVE: _ClassVar[Kind]
    PERMIT: _ClassVar[Kind]
    BIND: _ClassVar[Kind]
    POSTBIND: _ClassVar[Kind]
    UNSCHEDULABLE: _ClassVar[Kind]
    PREEMPT: _ClassVar[Kind]
    PERMITTED: _ClassVar[Kind]
KIND_UNSPECIFIED: Kind
QUEUED: Kind
DEQUEUED: Kind
PREFILTER: Kind
FILTER: Kind
SCORE: Kind
RESERVE: Kind
UNRESERVE: Kind
PERMIT: Kind
BIND: Kind
POSTBIND: Kind
UNSCHEDULABLE: Kind
PREEMPT: Kind
PERMITTED: Kind

class Batch(_message.Message):
    __slots__ = ("client", "first", "facts", "dropped")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    client: str
    first: int
    facts: _containers.RepeatedCompositeFieldContainer[Fact]
    dropped: int
    def __init__(self, client: _Optional[str] = ..., first: _Optional[int] = ..., facts: _Optional[_Iterable[_Union[Fact, _Mapping]]] = ..., dropped: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("last",)
    LAST_FIELD_NUMBER: _ClassVar[int]
    last: int
    def __init__(self, last: _Optional[int] = ...) -> None: ...

class Fact(_message.Message):
    __slots__ = ("at", "kind", "namespace", "name", "uid", "node", "plugin", "scheduler", "code", "reasons", "counts", "scores", "candidates", "feasible", "attempt", "took")
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    SCHEDULER_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    FEASIBLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    at: int
    kind: Kind
    namespace: str
    name: str
    uid: str
    node: str
    plugin: str
    scheduler: str
    code: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    counts: _containers.RepeatedCompositeFieldContainer[Count]
    scores: _containers.RepeatedCompositeFieldContainer[NodeScore]
    candidates: int
    feasible: int
    attempt: int
    took: int
    def __init__(self, at: _Optional[int] = ..., kind: _Optional[_Union[Kind, str]] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ..., plugin: _Optional[str] = ..., scheduler: _Optional[str] = ..., code: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ..., counts: _Optional[_Iterable[_Union[Count, _Mapping]]] = ..., scores: _Optional[_Iterable[_Union[NodeScore, _Mapping]]] = ..., candidates: _Optional[int] = ..., feasible: _Optional[int] = ..., attempt: _Optional[int] = ..., took: _Optional[int] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("plugin", "reason", "nodes", "examples")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    reason: str
    nodes: int
    examples: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, plugin: _Optional[str] = ..., reason: _Optional[str] = ..., nodes: _Optional[int] = ..., examples: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeScore(_message.Message):
    __slots__ = ("node", "total", "plugins")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    node: str
    total: int
    plugins: _containers.RepeatedCompositeFieldContainer[PluginScore]
    def __init__(self, node: _Optional[str] = ..., total: _Optional[int] = ..., plugins: _Optional[_Iterable[_Union[PluginScore, _Mapping]]] = ...) -> None: ...

class PluginScore(_message.Message):
    __slots__ = ("plugin", "score")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    score: int
    def __init__(self, plugin: _Optional[str] = ..., score: _Optional[int] = ...) -> None: ...
