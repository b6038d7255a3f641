"""The OpenAPI document, made from the structs themselves, so that it cannot say anything else than they do.

Called by `api.server` once. The list of paths is the only thing written by hand.
"""

from typing import Any

import msgspec

from fairlead import __version__
from fairlead.model.audit import Report
from fairlead.model.dump import StateDump
from fairlead.model.view import (
    ExplanationPage,
    Failure,
    GraphPage,
    Health,
    NodePage,
    QueuePage,
    QueuesPage,
    Version,
)

_REF = "#/components/schemas/{name}"
_PAGES = (QueuePage, QueuesPage, ExplanationPage, NodePage, GraphPage)
_ANSWERS = (*_PAGES, StateDump, Report, Version, Health, Failure)


def document() -> dict[str, Any]:
    """The whole document (OpenAPI 3.1)."""
    refs, components = msgspec.json.schema_components(_ANSWERS, ref_template=_REF)
    schema = dict(zip(_ANSWERS, refs, strict=True))
    nodes = _query("nodes", "boolean", "A row per node, as Fairlead sees it and as it is.", True)

    def get(summary: str, answer: type, *parameters: dict[str, Any], **more: str) -> dict[str, Any]:
        responses: dict[str, Any] = {"200": _response("What was asked for.", schema[answer])}
        for status, text in more.items():
            kind = Health if answer is Health else Failure
            responses[status.lstrip("_")] = _response(text, schema[kind])
        return {"get": {"summary": summary, "parameters": list(parameters), "responses": responses}}

    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairlead",
            "version": __version__,
            "description": "What waits, what runs, where and why.",
        },
        "paths": {
            "/api/v1/queue": get(
                "Groups in queue order, then those assembling, starting and running.",
                QueuePage,
                _query("all", "boolean", "Ended groups too.", False),
                _query("namespace", "string", "Only this namespace.", ""),
                _query("limit", "integer", "How many rows at most; 0 = all.", 100),
                _query("offset", "integer", "How many rows to leave out.", 0),
                _400="A parameter cannot be read.",
            ),
            "/api/v1/queues": get("All queues: policy, limits, and how many groups.", QueuesPage),
            "/api/v1/groups/{name}": get(
                "The story of a group, by id, name or namespace/name (the slash may stand as it is).",
                ExplanationPage,
                {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}},
                _404="No such group is known.",
            ),
            "/api/v1/nodes": get("All nodes and what is free on them.", NodePage),
            "/api/v1/graph": get("The cluster as a containment tree, in JSON Graph Format.", GraphPage),
            "/api/v1/state": get(
                "The whole picture: nodes and who holds what, pods, groups, intents, grants, promises.",
                StateDump,
            ),
            "/api/v1/audit": {
                **get(
                    "The last audit: the scheduler's picture held against fresh lists of the cluster.",
                    Report,
                    nodes,
                    _404="None has been made yet.",
                ),
                "post": get(
                    "Make an audit now, and repair what differs.",
                    Report,
                    _query("repair", "boolean", "false: only look.", True),
                    nodes,
                    _503="The cluster cannot be listed, or its first lists are not in yet.",
                )["get"],
            },
            "/api/v1/version": get("The version of the scheduler.", Version),
            "/healthz": get("Whether the process turns.", Health),
            "/readyz": get("Whether groups can be placed.", Health, _503="They cannot, for these reasons."),
            "/metrics": {
                "get": {
                    "summary": "Metrics in Prometheus' text form.",
                    "responses": {"200": {"description": "Text.", "content": {"text/plain": {}}}},
                }
            },
        },
        "components": {"schemas": components},
    }


def _query(name: str, kind: str, text: str, default: object) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": {"type": kind, "default": default}}


def _response(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
