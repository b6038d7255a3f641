from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupRequest(_message.Message):
    __slots__ = ("group", "namespace", "ended", "limit", "offset")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group: str
    namespace: str
    ended: bool
    limit: int
    offset: int
    def __init__(self, group: _Optional[str] = ..., namespace: _Optional[str] = ..., ended: _Optional[bool] = ..., limit: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("name", "node", "phase")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    name: str
    node: str
    phase: str
    def __init__(self, name: _Optional[str] = ..., node: _Optional[str] = ..., phase: _Optional[str] = ...) -> None: ...

class GroupResponse(_message.Message):
    __slots__ = ("name", "size", "namespace", "state", "members", "nodes", "groups", "total")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    namespace: str
    state: str
    members: _containers.RepeatedCompositeFieldContainer[Member]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedCompositeFieldContainer[GroupResponse]
    total: int
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ..., namespace: _Optional[str] = ..., state: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., nodes: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[_Union[GroupResponse, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class ResourceRequest(_message.Message):
    __slots__ = ("whole",)
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    whole: bool
    def __init__(self, whole: _Optional[bool] = ...) -> None: ...

class ResourceResponse(_message.Message):
    __slots__ = ("graph",)
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    graph: str
    def __init__(self, graph: _Optional[str] = ...) -> None: ...
