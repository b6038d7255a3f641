"""Stands in for Spark where no container runs: `spark-submit` in cluster mode, and the driver that asks for
executors.

The Spark operator calls this file as $SPARK_HOME/bin/spark-submit; it makes the driver's pod and, as Spark
does, a ConfigMap with all settings. `Drivers`, in the test's process, does what the program in a driver's pod
would: it makes the executors' pods from these settings once the pod runs. Pods are put together as by Spark
3.5 (BasicDriverFeatureStep, BasicExecutorFeatureStep); only what matters to a scheduler is made.
"""

import json
import os
import subprocess
import sys
import threading
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

CONF = "spark.kubernetes"
LEAST_OVERHEAD = 384
UNITS = {"k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}


def settings(arguments: list[str]) -> tuple[dict[str, str], str]:
    """All of --conf, the last of a name counting, and the application's name."""
    pairs = list(pairwise(arguments))
    conf = dict(value.split("=", 1) for flag, value in pairs if flag == "--conf")
    names = [value for flag, value in pairs if flag == "--name"]
    return conf, names[-1]


def prefixed(conf: dict[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def mebibytes(text: str) -> int:
    number = text.rstrip("kmgtb")
    return int(int(number) * UNITS[text[len(number) :][:1] or "m"])


def pod(role: str, name: str, app: str, conf: dict[str, str], template: Object) -> Object:
    """A driver's or an executor's: the template, and over it the settings."""
    mine, meta = f"{CONF}.{role}", template.get("metadata") or {}
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key != "containers"}
    scheduler = conf.get(f"{mine}.scheduler.name") or conf.get(f"{CONF}.scheduler.name")
    if scheduler:
        spec["schedulerName"] = scheduler
    account = conf.get(f"{CONF}.authenticate.{role}.serviceAccountName")
    if account:
        spec["serviceAccountName"] = account
    labels = {"spark-app-name": app, "spark-role": role, "spark-app-selector": conf["spark.app.id"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": conf[f"{CONF}.namespace"],
            "labels": {**(meta.get("labels") or {}), **prefixed(conf, f"{mine}.label."), **labels},
            "annotations": {**(meta.get("annotations") or {}), **prefixed(conf, f"{mine}.annotation.")},
            "ownerReferences": meta.get("ownerReferences") or [],
        },
        "spec": {**spec, "restartPolicy": "Never", "containers": [container(role, conf, template)]},
    }


def container(role: str, conf: dict[str, str], template: Object) -> Object:
    mine = f"{CONF}.{role}"
    memory = mebibytes(conf.get(f"spark.{role}.memory", "1g"))
    overhead = conf.get(f"spark.{role}.memoryOverhead")
    total = memory + (max(memory // 10, LEAST_OVERHEAD) if overhead is None else mebibytes(overhead))
    cores = conf.get(f"{mine}.request.cores") or conf.get(f"spark.{role}.cores", "1")
    limit = conf.get(f"{mine}.limit.cores")
    names = [each.get("name") for each in (template.get("spec") or {}).get("containers") or [{}]]
    return {
        "name": names[0] or f"spark-kubernetes-{role}",
        "image": conf.get(f"{mine}.container.image", "none"),
        "env": [{"name": k, "value": v} for k, v in prefixed(conf, f"spark.{role}Env.").items()],
        "resources": {
            "requests": {"cpu": cores, "memory": f"{total}Mi"},
            "limits": {"memory": f"{total}Mi", **({"cpu": limit} if limit else {})},
        },
    }


def read_template(conf: dict[str, str], role: str) -> Object:
    file = conf.get(f"{CONF}.{role}.podTemplateFile")
    return yaml.safe_load(Path(file).read_text(encoding="utf-8")) if file else {}


def kubectl(*arguments: str, text: str | None = None) -> str:
    command = [os.environ["KUBECTL"], *arguments]
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    if run.returncode:
        raise SystemExit(run.stderr)
    return run.stdout


def main() -> None:
    """The operator's files are gone when it returns, so what executors need of them is in the ConfigMap."""
    conf, app = settings(sys.argv[1:])
    conf["spark.app.id"] = f"spark-{uuid.uuid4().hex}"
    name = conf[f"{CONF}.driver.pod.name"]
    driver = pod("driver", name, app, conf, read_template(conf, "driver"))
    made = json.loads(kubectl("create", "-o", "json", "-f", "-", text=json.dumps(driver)))
    data = {
        "spark.properties": json.dumps(conf),
        "pod-spec-template.yml": json.dumps(read_template(conf, "executor")),
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"]}
    meta = {
        "name": f"{name}-conf-map",
        "namespace": made["metadata"]["namespace"],
        "ownerReferences": [{**owner, "controller": True}],
    }
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    kubectl("create", "-f", "-", text=json.dumps(found))


def executors(driver: Object, data: dict[str, str]) -> list[Object]:
    """What a driver's program asks for; `data` is of its ConfigMap."""
    conf, template = json.loads(data["spark.properties"]), json.loads(data["pod-spec-template.yml"])
    meta = driver["metadata"]
    app = meta["labels"]["spark-app-name"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    found: list[Object] = []
    for number in range(1, int(conf.get("spark.executor.instances", "2")) + 1):
        each = pod("executor", f"{app}-exec-{number}", app, conf, template)
        each["metadata"]["labels"] |= {"spark-exec-id": str(number), "spark-exec-resourceprofile-id": "0"}
        each["metadata"]["ownerReferences"] = [*each["metadata"]["ownerReferences"], owner]
        found.append(each)
    return found


class Drivers:
    """Plays the programs in all drivers' pods of a namespace. `kubectl` is a live.Kubectl."""

    def __init__(self, kubectl: Any) -> None:
        self.kubectl = kubectl
        self.started: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drivers", daemon=True)

    def __enter__(self) -> "Drivers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            for driver in self.kubectl.get("pods", "-lspark-role=driver"):
                uid, name = driver["metadata"]["uid"], f"{driver['metadata']['name']}-conf-map"
                if driver["status"]["phase"] != "Running" or uid in self.started:
                    continue
                # The pod comes first, as with Spark: a kubelet would wait for what it is to mount.
                maps = {each["metadata"]["name"]: each["data"] for each in self.kubectl.get("configmaps")}
                if name in maps:
                    self.kubectl.create(*executors(driver, maps[name]))
                    self.started.add(uid)

    def end(self, app: str, code: int = 0) -> None:
        """The program is done: its executors go, and the driver's pod ends with this exit code."""
        self.kubectl(
            "delete", "pods", f"-lspark-role=executor,spark-app-name={app}", "--grace-period=0", "--force"
        )
        reason = "Error" if code else "Completed"
        ended = {
            "name": "spark-kubernetes-driver",
            "image": "none",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }
        ended["state"] = {"terminated": {"exitCode": code, "reason": reason}}
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [ended]}
        patch = json.dumps({"status": status})
        self.kubectl("patch", "pod", f"{app}-driver", "--subresource=status", "--type=merge", f"-p={patch}")


if __name__ == "__main__":
    main()
