"""Small texts for people."""

import pytest

from fairlead.cli import words


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0s"), (-5, "0s"), (59_999, "59s"), (192_000, "3m12s"), (600_000, "10m"), (3_599_000, "59m"),
        (7_500_000, "2h05m"), (86_399_000, "23h"), (273_600_000, "3d04h"), (10**9 * 900, "10416d"),
    ],
)  # fmt: skip
def test_span(milliseconds: int, text: str):
    assert words.span(milliseconds) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n3"], "n3"),
        (["n0", "n1", "n2", "n3", "n7"], "n0-n3,n7"),
        (["n2", "n1"], "n1-n2"),
        (["kwok-node-0", "kwok-node-1", "kwok-node-5"], "kwok-node-[0-1,5]"),
        (["n08", "n09", "n10", "n11"], "n08-n11"),
        (["a1.dc", "a2.dc"], "a[1-2].dc"),
        (["login", "n1"], "n1,login"),
        (["n1", "m1", "n2"], "n1-n2,m1"),
        (["n1", "n01"], "n1,n01"),
        (["n18446744073709551616"], "n18446744073709551616"),
    ],
)
def test_ranges(names: list[str], text: str):
    assert words.ranges(names) == text


def test_shorten_keeps_both_ends():
    assert words.shorten("training-run-of-the-week-x7k2p", 15) == "trainin…k-x7k2p"
    assert words.shorten("short", 15) == "short"
    assert len(words.shorten("x" * 99, 30)) == 30


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 1500, "1.5"), ("cpu", 0, "0"), ("cpu", -2000, "-2"), ("memory", 32 << 30, "32Gi"),
        ("memory", 135_055_314_944, "126Gi"), ("memory", (3 << 30) + (300 << 20), "3.3Gi"),
        ("memory", 1000, "1000"), ("nvidia.com/gpu", 8, "8"),
    ],
)  # fmt: skip
def test_amount(resource: str, value: int, text: str):
    assert words.amount(resource, value) == text


def test_F23_nothing_that_a_terminal_obeys_gets_through():
    assert words.clean("a\x1b[31mb\r\nc\u202ed") == "a\ufffd[31mb c\ufffdd"


def test_instant_of_what_has_not_come():
    assert words.instant(0) == "-"
