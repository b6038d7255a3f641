"""Lines out of network chunks, without copying a byte more than twice.

Used by `kube.watch`. A line may span many chunks and a chunk may hold thousands of lines.
"""


class LineSplitter:
    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines completed by this chunk; the rest is kept."""
        if b"\n" not in chunk:
            if chunk:
                self._parts.append(chunk)
            return []
        if self._parts:
            self._parts.append(chunk)
            chunk = b"".join(self._parts)
            self._parts = []
        lines = chunk.split(b"\n")
        if rest := lines.pop():
            self._parts.append(rest)
        return [line for line in lines if line]
