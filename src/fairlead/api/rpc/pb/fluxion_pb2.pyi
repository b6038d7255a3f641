from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PodSpec(_message.Message):
    __slots__ = ("id", "container", "cpu", "memory", "gpu", "storage", "labels")
    ID_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    id: str
    container: str
    cpu: int
    memory: int
    gpu: int
    storage: int
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., container: _Optional[str] = ..., cpu: _Optional[int] = ..., memory: _Optional[int] = ..., gpu: _Optional[int] = ..., storage: _Optional[int] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class MatchRequest(_message.Message):
    __slots__ = ("podspec", "count", "reserve", "jobName")
    PODSPEC_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    JOBNAME_FIELD_NUMBER: _ClassVar[int]
    podspec: PodSpec
    count: int
    reserve: bool
    jobName: str
    def __init__(self, podspec: _Optional[_Union[PodSpec, _Mapping]] = ..., count: _Optional[int] = ..., reserve: _Optional[bool] = ..., jobName: _Optional[str] = ...) -> None: ...

class NodeAlloc(_message.Message):
    __slots__ = ("nodeID", "tasks")
    NODEID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    nodeID: str
    tasks: int
    def __init__(self, nodeID: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class MatchResponse(_message.Message):
    __slots__ = ("fluxID", "nodelist", "reserved", "reserved_at", "allocated")
    FLUXID_FIELD_NUMBER: _ClassVar[int]
    NODELIST_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    RESERVED_AT_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    fluxID: int
    nodelist: _containers.RepeatedCompositeFieldContainer[NodeAlloc]
    reserved: bool
    reserved_at: int
    allocated: bool
    def __init__(self, fluxID: _Optional[int] = ..., nodelist: _Optional[_Iterable[_Union[NodeAlloc, _Mapping]]] = ..., reserved: _Optional[bool] = ..., reserved_at: _Optional[int] = ..., allocated: _Optional[bool] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("fluxID", "NoExistOK")
    FLUXID_FIELD_NUMBER: _ClassVar[int]
    NOEXISTOK_FIELD_NUMBER: _ClassVar[int]
    fluxID: int
    NoExistOK: bool
    def __init__(self, fluxID: _Optional[int] = ..., NoExistOK: _Optional[bool] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("fluxID", "error")
    FLUXID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    fluxID: int
    error: int
    def __init__(self, fluxID: _Optional[int] = ..., error: _Optional[int] = ...) -> None: ...

class JobspecMatchRequest(_message.Message):
    __slots__ = ("jobspec", "request", "reservation")
    JOBSPEC_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    jobspec: str
    request: str
    reservation: bool
    def __init__(self, jobspec: _Optional[str] = ..., request: _Optional[str] = ..., reservation: _Optional[bool] = ...) -> None: ...

class JobspecMatchResponse(_message.Message):
    __slots__ = ("allocation", "jobid", "reserved", "at", "overhead", "status")
    class ResultType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MATCH_SUCCESS: _ClassVar[JobspecMatchResponse.ResultType]
        MATCH_ERROR: _ClassVar[JobspecMatchResponse.ResultType]
        MATCH_DENIED: _ClassVar[JobspecMatchResponse.ResultType]
    MATCH_SUCCESS: JobspecMatchResponse.ResultType
    MATCH_ERROR: JobspecMatchResponse.ResultType
    MATCH_DENIED: JobspecMatchResponse.ResultType
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    JOBID_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    allocation: str
    jobid: int
    reserved: bool
    at: int
    overhead: float
    status: JobspecMatchResponse.ResultType
    def __init__(self, allocation: _Optional[str] = ..., jobid: _Optional[int] = ..., reserved: _Optional[bool] = ..., at: _Optional[int] = ..., overhead: _Optional[float] = ..., status: _Optional[_Union[JobspecMatchResponse.ResultType, str]] = ...) -> None: ...

class JobspecCancelRequest(_message.Message):
    __slots__ = ("jobID",)
    JOBID_FIELD_NUMBER: _ClassVar[int]
    jobID: int
    def __init__(self, jobID: _Optional[int] = ...) -> None: ...

class JobspecCancelResponse(_message.Message):
    __slots__ = ("jobID", "error", "status")
    class ResultType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CANCEL_SUCCESS: _ClassVar[JobspecCancelResponse.ResultType]
        CANCEL_REQUEST_ERROR: _ClassVar[JobspecCancelResponse.ResultType]
        CANCEL_ERROR: _ClassVar[JobspecCancelResponse.ResultType]
        CANCEL_DENIED: _ClassVar[JobspecCancelResponse.ResultType]
    CANCEL_SUCCESS: JobspecCancelResponse.ResultType
    CANCEL_REQUEST_ERROR: JobspecCancelResponse.ResultType
    CANCEL_ERROR: JobspecCancelResponse.ResultType
    CANCEL_DENIED: JobspecCancelResponse.ResultType
    JOBID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    jobID: int
    error: int
    status: JobspecCancelResponse.ResultType
    def __init__(self, jobID: _Optional[int] = ..., error: _Optional[int] = ..., status: _Optional[_Union[JobspecCancelResponse.ResultType, str]] = ...) -> None: ...

class JobspecInitRequest(_message.Message):
    __slots__ = ("policy", "jgf")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    JGF_FIELD_NUMBER: _ClassVar[int]
    policy: str
    jgf: str
    def __init__(self, policy: _Optional[str] = ..., jgf: _Optional[str] = ...) -> None: ...

class JobspecInitResponse(_message.Message):
    __slots__ = ("status",)
    class ResultType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INIT_SUCCESS: _ClassVar[JobspecInitResponse.ResultType]
        INIT_ERROR: _ClassVar[JobspecInitResponse.ResultType]
        INIT_DENIED: _ClassVar[JobspecInitResponse.ResultType]
    INIT_SUCCESS: JobspecInitResponse.ResultType
    INIT_ERROR: JobspecInitResponse.ResultType
    INIT_DENIED: JobspecInitResponse.ResultType
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: JobspecInitResponse.ResultType
    def __init__(self, status: _Optional[_Union[JobspecInitResponse.ResultType, str]] = ...) -> None: ...
