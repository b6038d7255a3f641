"""What the event loop says of errors that nobody caught."""

import subprocess
import sys

SCRIPT = """
import asyncio
from fairlead.runtime import eventloop, logs

class Wrapped(asyncio.Protocol):
    pass

async def main():
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    there = server.sockets[0].getsockname()
    transport, protocol = await loop.create_connection(Wrapped, *there)
    transport.abort()
    await asyncio.sleep(0.01)
    try:
        transport.write(b"x")
    except RuntimeError as error:  # what uvloop's TLS layer runs into, and tells of as it does
        about = {"transport": transport, "protocol": protocol}
        loop.call_exception_handler({"message": "Fatal error on SSL protocol", "exception": error, **about})
    loop.call_soon(lambda: 1 / 0)
    await asyncio.sleep(0.01)
    return "went on"

logs.configure("text")
print(eventloop.run(main()))
"""


def test_a_connection_that_was_closed_meanwhile_is_a_line_and_a_fault_is_shown_whole() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert run.stdout == "went on\n"
    assert "a connection broke" in run.stderr and "the handler is closed" in run.stderr
    assert run.stderr.count("Traceback") == 1 and "ZeroDivisionError" in run.stderr
