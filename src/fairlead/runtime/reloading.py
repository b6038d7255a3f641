"""The configuration file read again while the scheduler runs.

Made and called at SIGHUP by `fairlead.app`. A file that is wrong leaves the settings as they are.
"""

from collections.abc import Callable

import structlog

from fairlead.model.event import Configured
from fairlead.model.settings import Settings
from fairlead.runtime.config import Given, settings
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.port import Inbox

_log = structlog.get_logger("config")
_FIXED = {"scheduler": "scheduler-name", "retention": "retention"}
"""What ports were made with at start."""


class Reloading:
    """SIGHUP: the file is read again, and what it says goes to the engine as an event.

    A file that is wrong, or changes what only a restart can, is refused with a line in the log; then the
    old settings go on.
    """

    def __init__(
        self, given: Given, present: Settings, inbox: Inbox, read: Callable[[Settings], None] = lambda _: None
    ) -> None:
        """`read` is told the settings whenever the file is right, changed or not."""
        self._given, self.present, self._inbox, self._read = given, present, inbox, read

    def __call__(self) -> None:
        file = str(self._given.config)
        try:
            wanted = settings(self._given)
            self._check(wanted)
        except ConfigError as error:
            _log.error("configuration refused: the old one goes on", file=file, error=str(error))
            return
        self._read(wanted)
        if wanted == self.present:
            _log.info("configuration read again: nothing has changed", file=file)
            return
        self.present = wanted
        self._inbox.put([Configured(wanted)])
        queues = {queue.name: queue.policy for queue in wanted.queues}
        _log.info("configuration read again", file=file, queues=queues, match=wanted.match)

    def _check(self, wanted: Settings) -> None:
        for field, key in _FIXED.items():
            if getattr(wanted, field) != getattr(self.present, field):
                raise ConfigError(f"{self._given.config}: {key} has changed, which needs a restart")
