"""docs/esi.md: every command is run against a Testbed as it describes, and answers what is printed there."""

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from esi_doors import Served, served

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "esi.md").read_text()
EXAMPLE = re.compile(r"```sh\n(curl [^`]*)```\n```(json)?\n([^`]*)```", re.M)


class Command(NamedTuple):
    method: str
    path: str
    body: Any
    code_only: bool


def command(text: str) -> Command:
    words = shlex.split(text)
    method, path, body, code_only = "GET", "", None, False
    values = iter(words[1:])
    for word in values:
        match word:
            case "-s":
                pass
            case "-X":
                method = next(values)
            case "-d":
                body = json.loads(next(values))
                method = "POST" if method == "GET" else method
            case "-o" | "-w":
                next(values)
                code_only = True
            case _:
                assert word.startswith("$ESI/"), word
                path = word.removeprefix("$ESI")
    return Command(method, path, body, code_only)


async def answer(esi: Served, asked: Command) -> Any:
    found = await esi.ask(asked.method, asked.path, asked.body)
    return found.status_code if asked.code_only else found.json()


async def test_every_command_answers_what_is_printed():
    examples = EXAMPLE.findall(DOCUMENT)
    assert len(examples) >= 9
    async with served() as esi:
        for text, _, output in examples:
            asked, expected = command(text), json.loads(output)
            found = await answer(esi, asked)
            for _ in range(2_000):
                if found == expected or asked.method != "GET":
                    break
                await asyncio.sleep(0.001)
                found = await answer(esi, asked)  # it may take a while until it has come to that
            assert found == expected, text
