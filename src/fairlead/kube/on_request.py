"""Binds a pod because somebody outside asks for it, and tells him what came of it.

Made by the composition root for `api.extender` (it is the extender's `Binds`); the binding itself is
`kube.bind`'s, with the pod's uid, its version and the fence. The engine hears of it by the watch only.
"""

import asyncio
from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from fairlead.kube.bind import Binder
from fairlead.kube.client import ApiClient
from fairlead.kube.outcomes import Fence, Metrics, Outcomes, Quiet, always
from fairlead.model.command import Bind
from fairlead.model.event import BindFailed, Bound, Event


class BindsOnRequest:
    """`request_timeout` in seconds; kube-scheduler's patience with its extender must be longer."""

    def __init__(
        self, client: ApiClient, *, fence: Fence = always, parallel: int = 16, request_timeout: float = 5.0
    ) -> None:
        outcomes = Outcomes()
        outcomes.attach(self)
        self._asked: dict[str, asyncio.Future[str]] = {}
        self._binder = Binder(
            client,
            outcomes,
            Quiet(),
            Metrics(CollectorRegistry()),
            {},
            fence=fence,
            parallel=parallel,
            request_timeout=request_timeout,
        )

    async def bind(self, bind: Bind) -> str:
        """ "" once the pod is bound to that node, even by somebody else; else why not, in a sentence."""
        if bind.pod in self._asked:
            return "this pod is being bound already"
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asked[bind.pod] = answer
        self._binder.add(bind)
        return await answer

    def put(self, events: Sequence[Event]) -> None:
        """What came of bindings, from the binder."""
        for event in events:
            if isinstance(event, Bound | BindFailed):
                answer = self._asked.pop(event.pod, None)
                if answer is not None and not answer.done():  # who asked may have gone away
                    answer.set_result("" if isinstance(event, Bound) else f"{event.error}: {event.text}")

    async def close(self) -> None:
        """Nothing new is sent; who still waits is told so."""
        await self._binder.close()
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            if not answer.done():
                answer.set_result("Fairlead is ending")
