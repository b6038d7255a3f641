"""Who may do what at ESI's doors: tokens, rights per namespace, and how long an answer holds."""

from typing import Any

import pytest
from esi_doors import served
from starlette.exceptions import HTTPException

from fairlead.api.esi.access import MOST, SECONDS, Guarded, Right
from fairlead.app_esi import EsiOptions
from fairlead.cli.errors import CliError
from fairlead.cli.scheduler import ports, scheduler
from fairlead.model.caller import Caller
from fairlead.runtime.errors import ClusterError, ConfigError

ANN = Caller("ann", "1", ("staff",))
GOOD = "Bearer good"


class Reviews:
    """A cluster that knows the token "good", lets ann list in `default`, and counts how often it is asked."""

    def __init__(self) -> None:
        self.tokens = self.accesses = 0
        self.away = ""
        self.asked: list[tuple[str, ...]] = []

    async def token_review(self, token: str) -> Caller | None:
        self.tokens += 1
        if self.away:
            raise ClusterError(self.away, 503)
        return ANN if token == "good" else None

    async def access_review(
        self, caller: Caller, verb: str, group: str, resource: str, namespace: str, name: str
    ) -> bool:
        self.accesses += 1
        self.asked.append((caller.name, verb, group, resource, namespace, name))
        return (verb, namespace) == ("list", "default")


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


LIST = Right("list", "batchjobs", "default")


def guarded() -> tuple[Guarded, Reviews, Watch]:
    reviews, watch = Reviews(), Watch()
    return Guarded(reviews, watch), reviews, watch  # type: ignore[arg-type]


async def refusal(access: Guarded, header: str, right: Right) -> HTTPException:
    with pytest.raises(HTTPException) as found:
        await access.check(header, right)
    return found.value


async def test_a_known_token_with_the_right_may():
    access, reviews, _ = guarded()
    await access.check(GOOD, LIST)
    await access.check("bearer  good ", LIST)
    assert reviews.asked == [("ann", "list", "esi.tu-berlin.de", "batchjobs", "default", "")]


@pytest.mark.parametrize("header", ["", "good", "Basic Z29vZA==", "Bearer", "Bearer  "])
async def test_without_a_token_nobody_may(header: str):
    access, reviews, _ = guarded()
    found = await refusal(access, header, LIST)
    assert (found.status_code, found.headers and found.headers["WWW-Authenticate"]) == (
        401, 'Bearer realm="fairlead"',
    )  # fmt: skip
    assert "a token is needed" in found.detail
    assert reviews.tokens == 0


async def test_a_token_that_the_cluster_does_not_know():
    access, _, _ = guarded()
    found = await refusal(access, "Bearer bad", LIST)
    assert (found.status_code, "does not accept this token" in found.detail) == (401, True)


async def test_a_known_one_without_the_right_is_told_which():
    access, _, _ = guarded()
    found = await refusal(access, GOOD, Right("delete", "schedulings", "team-a"))
    assert found.status_code == 403
    assert found.detail == (
        "ann may not delete schedulings.esi.tu-berlin.de in the namespace team-a: grant the verb by RBAC"
    )
    found = await refusal(access, GOOD, Right("patch", "nodes", "", group=""))
    assert found.detail == "ann may not patch nodes in all namespaces: grant the verb by RBAC"


async def test_answers_hold_for_a_few_seconds_good_ones_and_bad_ones():
    access, reviews, watch = guarded()
    for _ in range(3):
        await access.check(GOOD, LIST)
        await refusal(access, "Bearer bad", LIST)
        await refusal(access, GOOD, Right("get", "batchjobs", "default"))
    assert (reviews.tokens, reviews.accesses) == (2, 2)
    watch.now = SECONDS + 1
    await access.check(GOOD, LIST)
    assert (reviews.tokens, reviews.accesses) == (3, 3)


async def test_a_revoked_token_is_out_once_the_answer_is_old():
    access, reviews, watch = guarded()
    await access.check(GOOD, LIST)
    reviews.token_review = lambda _: _nobody()  # type: ignore[method-assign]
    watch.now = SECONDS + 1
    assert (await refusal(access, GOOD, LIST)).status_code == 401


async def _nobody() -> None:
    return None


async def test_a_cluster_that_does_not_answer_lets_nobody_in_and_nothing_is_remembered():
    access, reviews, _ = guarded()
    reviews.away = "connection refused"
    found = await refusal(access, GOOD, LIST)
    assert (found.status_code, "connection refused" in found.detail) == (503, True)
    reviews.away = ""
    await access.check(GOOD, LIST)


async def test_guesses_do_not_fill_the_memory():
    access, _, _ = guarded()
    for i in range(MOST + 10):
        await refusal(access, f"Bearer guess-{i}", LIST)
    assert len(access._callers._kept) == MOST


RIGHTS = [
    ("GET", "/external/jobs", None, ("list", "batchjobs", "default")),
    ("GET", "/external/testbeds/tb?namespace=team-a", None, ("get", "testbeds", "team-a")),
    ("GET", "/external/schedulings", None, ("list", "schedulings", "default")),
    ("PUT", "/external/jobs/", {"name": "j1", "externalScheduler": {}}, ("update", "batchjobs", "default")),
    ("POST", "/external/schedulings", {}, ("create", "schedulings", "default")),
    ("DELETE", "/external/schedulings/s", None, ("delete", "schedulings", "default")),
    ("GET", "/external/events?kind=jobs", None, ("watch", "batchjobs", "default")),
    ("POST", "/debug/node-set-up?name=tb&count=1", None, ("get", "testbeds", "default")),
    ("POST", "/debug/reset-all-jobs", None, ("update", "batchjobs", "default")),
    ("POST", "/debug/reset-all-jobs?allNamespaces=true", None, ("update", "batchjobs", "")),
]


@pytest.mark.parametrize("method, path, body, right", RIGHTS)
async def test_every_door_asks_for_its_right(
    method: str, path: str, body: object, right: tuple[str, str, str]
):
    asked: list[tuple[str, str, str]] = []

    def allows(*question: Any) -> bool:
        _, verb, _, resource, namespace = question
        asked.append((verb, resource, namespace))
        return False

    async with served(allows=allows) as esi:
        assert (await esi.ask(method, path, body)).status_code == 401
        assert asked == []
        answer = await esi.ask(method, path, body, authorization=GOOD)
        assert (answer.status_code, asked) == (403, [right])
        assert answer.json()["error"].startswith(f"ann may not {right[0]} {right[1]}.")


async def test_an_upsert_of_what_there_is_needs_update_too():
    def allows(caller: Caller, verb: str, *_: str) -> bool:
        return verb != "update" or caller.name == "bob"

    body = {"name": "s", "testBed": "tb", "queue": ["j1"]}
    async with served(allows=allows) as esi:
        made = await esi.ask("POST", "/external/schedulings", body, authorization=GOOD)
        assert made.status_code == 200, made.text
        again = await esi.ask("POST", "/external/schedulings", body, authorization=GOOD)
        assert (again.status_code, "may not update schedulings" in again.json()["error"]) == (403, True)
        bob = await esi.ask("POST", "/external/schedulings", body, authorization="Bearer other")
        assert bob.status_code == 200


async def test_labelling_nodes_needs_the_right_to_patch_nodes():
    def allows(*question: Any) -> bool:
        return question[3] == "testbeds"

    async with served(allows=allows) as esi:
        answer = await esi.ask("POST", "/debug/node-set-up?name=tb&count=1", authorization=GOOD)
    assert (answer.status_code, answer.json()["error"]) == (
        403, "ann may not patch nodes in all namespaces: grant the verb by RBAC",
    )  # fmt: skip


async def test_health_is_for_everybody():
    async with served(allows=lambda *_: False) as esi:
        assert (await esi.ask("GET", "/actuator/health")).status_code == 200


async def test_pages_of_other_sites_are_refused_before_anybody_is_asked():
    async with served(allows=lambda *_: True) as esi:
        answer = await esi.ask("GET", "/external/jobs", authorization=GOOD, origin="http://evil.example")
        assert (answer.status_code, answer.json()["error"]) == (
            403,
            "requests from other origins are refused",
        )
        answer = await esi.ask("GET", "/external/jobs", authorization=GOOD, host="evil.example")
        assert answer.status_code == 403


# -- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_no_tokens_where_none_but_this_machine_can_ask(host: str):
    EsiOptions(insecure=True).check(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "fairlead.example"])
def test_no_tokens_is_refused_where_others_can_ask(host: str):
    with pytest.raises(ConfigError, match=f"--insecure-esi .* --host {host}"):
        EsiOptions(insecure=True).check(host)
    EsiOptions().check(host)


def test_who_places_application_pods():
    assert EsiOptions().aliases == ("external-scheduler",)
    assert EsiOptions(binder="extender").aliases == ()


def test_ports_are_read_and_wrong_ones_refused():
    assert ports("--also-listen", "") == ()
    assert ports("--also-listen", "8080, 8082") == (8080, 8082)
    for wrong in ("x", "0", "70000", "8080;8082"):
        with pytest.raises(CliError, match="--also-listen"):
            ports("--also-listen", wrong)


def test_options_of_external_schedulers_need_esi():
    with pytest.raises(CliError, match="add it"):
        scheduler(insecure_esi=True)
    with pytest.raises(CliError, match="choose fairlead or extender"):
        scheduler(esi=True, esi_binder="nobody")
