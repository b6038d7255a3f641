"""ESI's part of the OpenAPI document. Called by `api.openapi` where external schedulers are served.

The shapes are made from the structs; paths, codes and parameters are written by hand.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.api.esi.operations import Enrolment
from fairlead.api.esi.shapes import JobBody, JobShape, SchedulingBody, SchedulingShape, TestbedShape
from fairlead.model.view import Failure

_REF = "#/components/schemas/{name}"
_SHAPES = (TestbedShape, JobShape, JobBody, SchedulingShape, SchedulingBody, Enrolment, Failure)
_TEXT = {"type": "string"}
_ERRORS = {
    "400": "Something in the request is wrong, or the API server refuses it; the text says where and why.",
    "401": "A bearer token of the cluster is needed.",
    "403": "RBAC does not grant the verb.",
    "404": "There is none of this name.",
    "409": "It has changed meanwhile.",
    "412": "If-Match or If-None-Match does not hold.",
    "503": "The first lists are not in yet, or the API server does not answer.",
}


def extend(document: dict[str, Any]) -> dict[str, Any]:
    """The document, with ESI's paths and shapes in it."""
    refs, components = msgspec.json.schema_components(_SHAPES, ref_template=_REF)
    schema = dict(zip(_SHAPES, refs, strict=True))
    document["components"]["schemas"] |= components
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, verbs in _paths(schema).items():
        document["paths"][path] = {
            verb: {"security": [{"token": []}], **each} for verb, each in verbs.items()
        }
    return document


def _paths(schema: dict[Any, Any]) -> dict[str, dict[str, Any]]:
    failure = schema[Failure]

    def answers(text: str, shape: Any, *codes: str, media: str = "application/json") -> dict[str, Any]:
        errors = {code: _answer(_ERRORS[code], failure) for code in ("400", "401", "403", *codes, "503")}
        return {"responses": {"200": _answer(text, shape, media), **errors}}

    def reads(what: str, shape: type, keyed: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        many: Any = {"type": "array", "items": schema[shape]}
        if keyed:
            many = {"type": "object", "additionalProperties": schema[shape]}
        same = {"304": {"description": "It is what If-None-Match names."}}
        listing = answers(f"All {what}s.", many)
        single = answers(f"The {what}.", schema[shape], "404")
        listing["responses"] |= same
        single["responses"] |= same
        return (
            {"summary": f"All {what}s of a namespace.", "parameters": [_NAMESPACE, _NONE_MATCH], **listing},
            {"summary": f"One {what}.", "parameters": [_NAME, _NAMESPACE, _NONE_MATCH], **single},
        )

    testbeds, testbed = reads("Testbed", TestbedShape)
    jobs, job = reads("job", JobShape, keyed=True)
    schedulings, scheduling = reads("Scheduling", SchedulingShape)
    deleted = answers("The last one known.", schema[SchedulingShape], "409", "412")
    deleted["responses"]["304"] = {"description": "There is none of this name."}
    return {
        "/external/testbeds": {"get": testbeds},
        "/external/testbeds/{name}": {"get": testbed},
        "/external/jobs": {
            "get": jobs,
            "put": {
                "summary": "Store an algorithm's own notes about a job; nothing else in the body counts.",
                "parameters": [_NAMESPACE, _MATCH],
                "requestBody": _body(schema[JobBody]),
                **answers("The job as it is now.", schema[JobShape], "404", "409", "412"),
            },
        },
        "/external/jobs/{name}": {"get": job},
        "/external/schedulings": {
            "get": schedulings,
            "post": {
                "summary": "Make a Scheduling, or replace the one of this name.",
                "parameters": [_NAMESPACE, _MATCH, _NONE_MATCH],
                "requestBody": _body(schema[SchedulingBody]),
                **answers("The Scheduling as it is now.", schema[SchedulingShape], "409", "412"),
            },
        },
        "/external/schedulings/{name}": {
            "get": scheduling,
            "delete": {"summary": "Delete it.", "parameters": [_NAME, _NAMESPACE, _MATCH], **deleted},
        },
        "/external/events": {
            "get": {
                "summary": "What changes, as Server-Sent Events.",
                "parameters": [
                    _query("kind", _TEXT, "testbeds, jobs or schedulings; else all."),
                    _query("name", _TEXT, "Only the one of this name."),
                    _NAMESPACE,
                    _header("Last-Event-ID", "The last number that was seen."),
                ],
                **answers("Events without end.", _TEXT, media="text/event-stream"),
            }
        },
        **_debug(schema, answers),
    }


def _debug(schema: dict[Any, Any], answers: Callable[..., dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        "/debug/node-set-up": {
            "post": {
                "summary": "Label nodes for a Testbed: those on which all slots of a node fit.",
                "parameters": [
                    _query("name", _TEXT, "The Testbed."),
                    _query("count", {"type": "integer"}, "How many nodes it is to have."),
                    _query("remove", _FLAG, "Take the label from other nodes, but for those in use."),
                    _query("dryRun", _FLAG, "Only tell what would be done."),
                    _NAMESPACE,
                ],
                **answers("What was done.", schema[Enrolment], "404"),
            }
        },
        "/debug/reset-all-jobs": {
            "post": {
                "summary": "Begin failed jobs anew.",
                "parameters": [
                    _query("allNamespaces", _FLAG, "Not only in one namespace."),
                    _query("dryRun", _FLAG, "Only tell which."),
                    _NAMESPACE,
                ],
                **answers("Their names.", {"type": "array", "items": _TEXT}),
            }
        },
    }


def _query(name: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _header(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": text, "schema": _TEXT}


def _body(schema: Any) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answer(text: str, schema: Any, media: str = "application/json") -> dict[str, Any]:
    return {"description": text, "content": {media: {"schema": schema}}}


_FLAG: dict[str, Any] = {"type": "boolean", "default": False}
_NAME = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
_NAMESPACE = _query("namespace", _TEXT, "Else the one of --esi-namespace.")
_MATCH = _header("If-Match", "Only if it is still what this ETag names.")
_NONE_MATCH = _header(
    "If-None-Match", "A read: not if it is what this ETag names. A write: `*`, only a new one."
)
