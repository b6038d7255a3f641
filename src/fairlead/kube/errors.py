"""What can go wrong with a Kubernetes API server, in words a user can act on.

Raised by `kube.config`, `kube.client` and `kube.access`; the command line prints `str(error)` and ends.
Must not carry tokens or whole response bodies.
"""


class KubeError(Exception):
    """Something about the cluster, its configuration or our rights; the text is for people."""


class ConfigError(KubeError):
    """The kubeconfig (or the in-cluster account) is missing, unreadable or contradicts itself."""


class Unreachable(KubeError):
    """No answer: refused, timed out, cut, or a certificate that does not hold.

    `sent` is false only when the request certainly never left: then it may be sent again blindly.
    """

    def __init__(self, text: str, *, sent: bool = True) -> None:
        super().__init__(text)
        self.sent = sent


class Untrusted(Unreachable):
    """Somebody answers, but not with a certificate that this kubeconfig trusts. Waiting does not help."""


class Silent(Unreachable):
    """A stream was opened, and then nothing came for too long."""


class ApiError(KubeError):
    """The API server answered with an error status."""

    def __init__(self, text: str, *, status: int, reason: str = "", retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def transient(self) -> bool:
        """Worth trying the same again: overload or a fault inside the server."""
        return self.status == 429 or self.status >= 500
