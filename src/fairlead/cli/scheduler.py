"""`fairlead scheduler`: options in, `fairlead.app.run` called.

Registered by `cli.main`. Refuses words it does not know before anything is started, naming those it
does; imports the scheduler itself only when it is about to run. Must not hold any logic of its own.
"""

import importlib
from pathlib import Path

from fairlead.cli import scheduler_options as options
from fairlead.cli.errors import CliError
from fairlead.core.durations import duration
from fairlead.model.settings import MATCHES, POLICIES

SWITCH = ("on", "off")
LOG_FORMATS = ("text", "json")
BINDERS = ("fairlead", "extender")


def one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices; empty means not given."""
    if value and value not in choices:
        raise CliError(f"{option} {value!r} is not known: choose {' or '.join(choices)}")
    return value


def seconds(option: str, value: str) -> float:
    """A duration such as 15s, 500ms or 1m30s."""
    found = duration(value)
    if not found:
        raise CliError(f"{option} {value!r} is no duration above zero such as 15s, 500ms or 1m30s")
    return found / 1000


def ports(option: str, value: str) -> tuple[int, ...]:
    """Ports separated by commas."""
    found = [each.strip() for each in value.split(",") if each.strip()]
    for each in found:
        if not (each.isascii() and each.isdigit() and 0 < int(each[:6]) < 65536):
            raise CliError(f"{option} {value!r}: {each!r} is no port from 1 to 65535")
    return tuple(int(each) for each in found)


def scheduler(
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = "",
    data_dir: options.DataDir = None,
    database_url: options.DatabaseUrl = "",
    config: options.Config = None,
    policy: options.Policy = "",
    reservation_depth: options.ReservationDepth = None,
    queue_depth: options.QueueDepth = None,
    match: options.Match = "",
    scheduler_name: options.SchedulerName = "",
    pod_events: options.PodEvents = "on",
    record: options.Record = None,
    ledger: options.Ledger = False,
    ledger_interval: options.LedgerInterval = "1h",
    ledger_retention: options.LedgerRetention = "30d",
    log_format: options.LogFormat = "text",
    host: options.Host = "127.0.0.1",
    port: options.Port = 0,
    grpc: options.Grpc = "",
    grpc_allow_remote: options.GrpcAllowRemote = False,
    audit_interval: options.AuditInterval = "10m",
    leader_elect: options.LeaderElect = False,
    lease_duration: options.LeaseDuration = "15s",
    renew_deadline: options.RenewDeadline = "10s",
    retry_period: options.RetryPeriod = "2s",
    lease_name: options.LeaseName = "fairlead",
    lease_namespace: options.LeaseNamespace = "",
    also_listen: options.AlsoListen = "",
    esi: options.Esi = False,
    esi_binder: options.EsiBinder = "fairlead",
    extender: options.Extender = "",
    extender_tls: options.ExtenderTls = None,
    extender_allow_remote: options.ExtenderAllowRemote = False,
    esi_namespace: options.EsiNamespace = "default",
    insecure_esi: options.InsecureEsi = False,
    esi_old_gets: options.EsiOldGets = False,
) -> None:
    """Schedule groups of pods until it is stopped.

    Pods with `schedulerName: fairlead` are placed; those of others are counted and left alone.
    """
    given: dict[str, object] = {
        "kubeconfig": kubeconfig,
        "context": context,
        "data_dir": data_dir,
        "database_url": database_url,
        "config": config,
        "policy": one_of("--policy", policy, POLICIES),
        "reservation_depth": reservation_depth,
        "queue_depth": queue_depth,
        "match": one_of("--match", match, MATCHES),
        "scheduler": scheduler_name,
        "pod_events": one_of("--pod-events", pod_events, SWITCH) == "on",
        "record": record,
        "ledger": ledger,
        "ledger_interval": seconds("--ledger-interval", ledger_interval),
        "ledger_retention": seconds("--ledger-retention", ledger_retention),
        "log_format": one_of("--log-format", log_format, LOG_FORMATS),
        "host": host,
        "port": port,
        "grpc": grpc,
        "grpc_allow_remote": grpc_allow_remote,
        "audit_interval": seconds("--audit-interval", audit_interval) if audit_interval != "0" else 0.0,
        "also_listen": ports("--also-listen", also_listen),
        "leader_elect": leader_elect,
        **_lease(lease_name, lease_namespace, lease_duration, renew_deadline, retry_period),
    }
    apart = _apart(esi_binder, extender, extender_tls, extender_allow_remote)
    _run(given, _external(esi, esi_binder, esi_namespace, insecure_esi, esi_old_gets), apart)


def _run(given: dict[str, object], external: dict[str, object] | None, apart: dict[str, object]) -> None:
    app = importlib.import_module("fairlead.app")
    if external is not None:
        extender = importlib.import_module("fairlead.api.apart").Apart(**apart)
        given["esi"] = app.EsiOptions(**external, extender=extender)
    app.run(app.Options(**given))


def _lease(name: str, namespace: str, lease: str, renewal: str, pause: str) -> dict[str, str | float]:
    return {
        "lease_name": name,
        "lease_namespace": namespace,
        "lease_duration": seconds("--lease-duration", lease),
        "renew_deadline": seconds("--renew-deadline", renewal),
        "retry_period": seconds("--retry-period", pause),
    }


def _external(
    esi: bool, binder: str, namespace: str, insecure: bool, old_gets: bool
) -> dict[str, object] | None:
    """What is to be known of external schedulers; None if they are not served."""
    found: dict[str, object] = {
        "binder": one_of("--esi-binder", binder, BINDERS),
        "namespace": namespace,
        "insecure": insecure,
        "old_gets": old_gets,
    }
    if not esi and (insecure or old_gets or binder != BINDERS[0]):
        raise CliError("--insecure-esi, --esi-old-gets and --esi-binder belong to --esi: add it")
    return found if esi else None


def _apart(binder: str, address: str, tls: Path | None, remote: bool) -> dict[str, object]:
    """Where the extender is asked."""
    if binder == BINDERS[0] and (address or tls or remote):
        raise CliError("--extender, --extender-tls and --extender-allow-remote need --esi-binder extender")
    return {"address": address, "tls": tls, "remote": remote}
