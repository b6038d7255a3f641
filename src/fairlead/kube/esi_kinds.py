"""How ESI's custom resources, and the applications that BatchJobs become, are listed and read.

The kinds of `kube.port` where external schedulers are served. Pure but for a log line and a counter when an
object cannot be read. All are optional: an operator may be installed later, or never. Must not raise for
anything a server may send.
"""

from collections.abc import Callable
from typing import cast

import msgspec

from fairlead.kube.paths import HOMES
from fairlead.kube.things import SOURCE
from fairlead.kube.translate import Body, Counter, EsiKind, complain
from fairlead.model.application import Account, BatchV1Job, EsiThing, PriorityClass, tag_of
from fairlead.model.batchjob import AppKind
from fairlead.model.esi import MANAGED_LABEL
from fairlead.model.event import EsiGone, EsiSeen
from fairlead.wire import applications, esi

MANAGED = "{}={}".format(*MANAGED_LABEL)
"""Which applications are looked at: those that a BatchJob has become."""


def _kind(tag: str, path: str, read: Callable[[Body], EsiThing], selector: str = "") -> EsiKind:
    def seen(raw: Body, count: Counter) -> EsiSeen | None:
        try:
            return EsiSeen(read(raw))
        except (msgspec.MsgspecError, ValueError) as error:
            complain(tag, raw, error, count)
            return None

    return EsiKind(tag, path, SOURCE, seen, EsiGone, optional=True, selector=selector)


def _application(kind: AppKind) -> EsiKind:
    tag = tag_of(BatchV1Job) if kind is AppKind.JOB else str(kind)
    read = cast("Callable[[Body], EsiThing]", applications.READERS[kind])
    return _kind(tag, HOMES[kind].path, read, MANAGED)


ESI_KINDS = (
    _kind("Testbed", HOMES["Testbed"].path, esi.testbed),
    _kind("BatchJob", HOMES["BatchJob"].path, esi.batch_job),
    _kind("Scheduling", HOMES["Scheduling"].path, esi.scheduling),
    *(_application(kind) for kind in AppKind),
    _kind(tag_of(Account), "/api/v1/serviceaccounts", applications.account),
    _kind(tag_of(PriorityClass), "/apis/scheduling.k8s.io/v1/priorityclasses", applications.priority_class),
)
