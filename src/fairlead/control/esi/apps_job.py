"""A jobSpec as a batch/v1 Job, a jobSetSpec as a JobSet, whose pods go into slots.

Used by `apps`. How many pods there are is the user's, where written; else as many as slots. Pure.
"""

from fairlead.control.esi.apps_pod import Object, Pods, beside, fitted, part, parts, template, word

JOB = "batch/v1"
JOB_SET = "jobset.x-k8s.io/v1alpha2"


def job(found: Object, pods: Pods) -> Object:
    """The whole spec. With a parallelism of the user's, no completions mean that any pod's success is all."""
    if found.get("parallelism") is None:
        done = found.get("completions")
        found["parallelism"] = min(done, pods.number) if isinstance(done, int) else pods.number
        found["completions"] = pods.number if done is None else done
    return _with_pods(found, pods)


def job_set(found: Object, pods: Pods) -> Object:
    """The whole spec. Replicated jobs that do not say how many pods they have share what slots are left."""
    replicated = parts(found, "replicatedJobs")
    specs = [part(part(each, "template"), "spec") for each in replicated]
    times = [_count(each, "replicas") for each in replicated]
    pairs = list(zip(times, specs, strict=True))
    taken = sum(n * _count(spec, "parallelism") for n, spec in pairs if spec.get("parallelism") is not None)
    open_ended = sum(n for n, spec in pairs if spec.get("parallelism") is None)
    share = max((pods.number - taken) // max(open_ended, 1), 1)
    for each, spec in zip(replicated, specs, strict=True):
        made = job(spec, pods._replace(number=share))
        each["template"] = {**part(each, "template"), "spec": made}
    return {**found, "replicatedJobs": replicated}


def why_not(found: Object, where: str, slot: dict[str, int] | None) -> str:
    """`where`: the name of the field, for people."""
    if found.get("suspend") is True:
        return f"{where}.suspend is true: it would never start"
    spec = part(part(found, "template"), "spec")
    if not parts(spec, "containers"):
        return f"{where}.template.spec.containers is missing"
    if spec.get("nodeName"):
        return f"{where}.template.spec.nodeName fixes the node, which slots decide: leave it out"
    for name, most in (slot or {}).items():
        taken = beside(spec, name)
        if most and taken >= most:
            return f"{where}: the containers beside the first ask for all {name} of a slot"
    return ""


def why_not_set(found: Object, slot: dict[str, int] | None) -> str:
    if found.get("suspend") is True:
        return "jobSetSpec.suspend is true: it would never start"
    replicated = parts(found, "replicatedJobs")
    if not replicated:
        return "jobSetSpec.replicatedJobs is missing"
    for number, each in enumerate(replicated):
        where = f"jobSetSpec.replicatedJobs[{number}].template.spec"
        if problem := why_not(part(part(each, "template"), "spec"), where, slot):
            return problem
    return ""


def account(found: Object) -> str:
    return word(found, "template", "spec", "serviceAccountName")


def account_of_set(found: Object) -> str:
    """The first that is named."""
    names = (account(part(part(each, "template"), "spec")) for each in parts(found, "replicatedJobs"))
    return next((name for name in names if name), "")


def _with_pods(spec: Object, pods: Pods) -> Object:
    made = template(part(spec, "template"), pods)
    made["spec"] = {"restartPolicy": "Never", **fitted(made["spec"], pods)}
    return {**spec, "template": made}


def _count(of: Object, key: str) -> int:
    found = of.get(key)
    return found if isinstance(found, int) else 1
