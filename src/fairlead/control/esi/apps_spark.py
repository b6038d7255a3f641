"""A sparkSpec as a SparkApplication (sparkoperator.k8s.io/v1beta2) whose executors go into slots.

Used by `apps`. Executors get schedulerName, priority and affinity by the operator's webhook; the scheduler
also by a key of sparkConf, which Spark itself obeys from 3.3 on, and all of it once more in the user's pod
template where there is one. The driver is left as the user wrote it, and takes no slot. Pure.
"""

import re
from fractions import Fraction

from fairlead.control.esi.apps_pod import Object, Pods, affinity, part, readable, template, word
from fairlead.model.esi import PRIORITY, SCHEDULER

API_VERSION = "sparkoperator.k8s.io/v1beta2"
CONF_SCHEDULER = "spark.kubernetes.executor.scheduler.name"
_MEMORY = re.compile(r"(\d+)\s*([bkmgtp]?)b?", re.ASCII)
_UNITS = {"b": 0, "k": 1, "": 2, "m": 2, "g": 3, "t": 4, "p": 5}
"""Powers of 1024 bytes; Spark takes a bare number of these settings for MiB."""
_MIB = 1 << 20
_LEAST_OVERHEAD = 384
"""MiB that Spark adds at least where no overhead is written."""
_MEMORIES = (("memory", "spark.executor.memory"), ("memoryOverhead", "spark.executor.memoryOverhead"))
_DYNAMIC = "spark.dynamicAllocation"
_NUMBERS = ("initialExecutors", "minExecutors", "maxExecutors")
_CONF_NUMBERS = ("spark.executor.instances", *(f"{_DYNAMIC}.{name}" for name in _NUMBERS))
_NEEDED = ("type", "sparkVersion", "mainApplicationFile")


def build(found: Object, pods: Pods) -> Object:
    """The whole spec. `found` may be changed."""
    executor, conf = part(found, "executor"), part(found, "sparkConf")
    _count(found, executor, conf, pods.number)
    executor.setdefault("cores", _whole(conf.get("spark.executor.cores")) or 1)
    _cpu(executor, conf, pods)
    _memory(found, executor, conf, pods.slot.get("memory", 0) // _MIB)
    _device(executor, pods)
    executor |= {
        "labels": part(executor, "labels") | pods.labels,
        "annotations": part(executor, "annotations") | pods.annotations,
        "affinity": affinity(part(executor, "affinity"), pods),
        "schedulerName": SCHEDULER,
        "priorityClassName": PRIORITY,
    }
    if "template" in executor:
        executor["template"] = template(part(executor, "template"), pods)
    conf[CONF_SCHEDULER] = SCHEDULER
    # The operator would let it win over the executors' own scheduler.
    found.pop("batchScheduler", None)
    options = part(found, "batchSchedulerOptions") | {"priorityClassName": PRIORITY}
    own = {"driver": part(found, "driver"), "executor": executor, "sparkConf": conf}
    return {"mode": "cluster", **found, **own, "batchSchedulerOptions": options}


def why_not(found: Object, slot: dict[str, int] | None) -> str:
    for key in _NEEDED:
        if not found.get(key):
            return f"sparkSpec.{key} is missing"
    if found.get("suspend") is True:
        return "sparkSpec.suspend is true: it would never start"
    executor, conf = part(found, "executor"), part(found, "sparkConf")
    for key, name in _MEMORIES:
        value = _said(executor, key, conf, name)
        if value is not None and _mebibytes(value) is None:
            return f"sparkSpec.executor.{key} is {value!r}: write a whole number with k, m, g or t"
    if slot is not None and "memory" in slot:
        left = slot["memory"] // _MIB - _reserved(executor, conf)
        if left <= 0:
            return "the memory overhead of sparkSpec.executor leaves nothing of a slot's memory"
    return ""


def account(found: Object) -> str:
    """The driver's."""
    return (
        word(found, "driver", "serviceAccount")
        or word(found, "driver", "template", "spec", "serviceAccountName")
        or word(found, "sparkConf", "spark.kubernetes.authenticate.driver.serviceAccountName")
    )


def _count(found: Object, executor: Object, conf: Object, count: int) -> None:
    """As many as slots. Where Spark itself adds and removes executors: that is the most, whoever says it.

    The operator passes dynamicAllocation after sparkConf.
    """
    dynamic = part(found, "dynamicAllocation")
    by_field = dynamic.get("enabled") is True
    if not by_field and str(conf.get(f"{_DYNAMIC}.enabled", "")).lower() != "true":
        executor["instances"] = count
        return
    for of, names in ((dynamic, _NUMBERS), (conf, _CONF_NUMBERS), (executor, ("instances",))):
        for name in names:
            wanted = _whole(of.get(name))
            if wanted is not None and wanted > count:
                of[name] = str(count) if of is conf else count
    if by_field:
        if _whole(dynamic.get("maxExecutors")) is None:
            dynamic["maxExecutors"] = _whole(conf.get(f"{_DYNAMIC}.maxExecutors")) or count
        found["dynamicAllocation"] = dynamic
    else:
        conf.setdefault(f"{_DYNAMIC}.maxExecutors", str(count))


def _cpu(executor: Object, conf: Object, pods: Pods) -> None:
    """The request; a limit below it would be refused."""
    said = _said(executor, "coreRequest", conf, "spark.kubernetes.executor.request.cores")
    bounds = [readable("cpu", value) for value in (said, executor.get("coreLimit"))]
    most = pods.slot.get("cpu", 0)
    least = min([value for value in bounds if value is not None], default=most)
    if least < most:
        executor["coreRequest"] = said if readable("cpu", said) == least else f"{least}m"
    else:
        executor["coreRequest"] = pods.texts.get("cpu", "1")


def _memory(found: Object, executor: Object, conf: Object, total: int) -> None:
    """Heap and overhead, which with what sparkConf adds are the pod's request: the slot in MiB, rounded down,
    or less. Without a word of the user's all is heap, as ESI has it."""
    limit = _mebibytes(executor.get("memoryLimit"))
    left = (total if limit is None else min(total, limit)) - _beside(conf)
    overhead = _mebibytes(_said(executor, "memoryOverhead", conf, "spark.executor.memoryOverhead"))
    memory = _mebibytes(_said(executor, "memory", conf, "spark.executor.memory"))
    factor = _factor(found, conf)
    if overhead is not None:
        _put(executor, memory, max(left - overhead, 1))
        return
    if memory is None and factor is None:
        executor |= {"memory": f"{max(left, 1)}m", "memoryOverhead": "0m"}
        return
    usual = Fraction("0.4") if found.get("type") in ("Python", "R") else Fraction("0.1")
    share = usual if factor is None else factor
    if memory is None:
        memory = min(int(left / (1 + share)), left - _LEAST_OVERHEAD)
        executor["memory"] = f"{max(memory, 1)}m"
    _put(executor, memory, max(left, 1))
    memory = min(memory, left)
    if memory + max(int(memory * share), _LEAST_OVERHEAD) > left:
        executor["memoryOverhead"] = f"{max(left - memory, 0)}m"


def _put(executor: Object, wanted: int | None, most: int) -> None:
    """The user's own words are kept where they ask for no more."""
    if wanted is None or wanted > most or "memory" not in executor:
        executor["memory"] = f"{most if wanted is None else min(wanted, most)}m"


def _reserved(executor: Object, conf: Object) -> int:
    overhead = _mebibytes(_said(executor, "memoryOverhead", conf, "spark.executor.memoryOverhead")) or 0
    return overhead + _beside(conf)


def _beside(conf: Object) -> int:
    """MiB that Spark adds to an executor beside heap and overhead."""
    python = _mebibytes(conf.get("spark.executor.pyspark.memory")) or 0
    if str(conf.get("spark.memory.offHeap.enabled", "")).lower() != "true":
        return python
    return python + (_mebibytes(conf.get("spark.memory.offHeap.size"), bare="b") or 0)


def _factor(found: Object, conf: Object) -> Fraction | None:
    names = ("spark.executor.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor")
    for value in (found.get("memoryOverheadFactor"), *(conf.get(name) for name in names)):
        if isinstance(value, str) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII):
            return Fraction(value)
    return None


def _device(executor: Object, pods: Pods) -> None:
    """A slot's one kind of device, where the user says nothing of devices."""
    devices = [name for name in pods.slot if "/" in name and pods.slot[name]]
    if len(devices) == 1 and "gpu" not in executor:
        executor["gpu"] = {"name": devices[0], "quantity": pods.slot[devices[0]]}


def _said(executor: Object, key: str, conf: Object, name: str) -> object:
    """A field of the executor's, which the operator lets win, or the key of sparkConf with that meaning."""
    value = executor.get(key)
    return conf.get(name) if value is None else value


def _mebibytes(value: object, bare: str = "m") -> int | None:
    """Memory as Spark reads it, in MiB, rounded up; None where it does not."""
    match = _MEMORY.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if match is None or len(match[1]) > 18:
        return None
    return -(-int(match[1]) * 1024 ** _UNITS[match[2] or ("" if bare == "m" else bare)] // _MIB)


def _whole(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
