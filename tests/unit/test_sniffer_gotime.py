"""Times as Go writes them: every form that the sniffer's programs send, and what is none."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.recorder import gotime

AT = 1_713_901_867  # 2024-04-23 19:51:07 UTC
READ = {
    "2024-04-23 19:51:07.300887638 +0000 UTC m=+82.830000001": AT * 10**9 + 300_887_638,
    "2024-04-23 19:51:07.300887638 +0000 UTC": AT * 10**9 + 300_887_638,
    "2024-04-23 19:51:07.3 +0000 UTC m=+0.3": AT * 10**9 + 300_000_000,
    "2024-04-23 19:51:07.000000001 +0000 UTC m=-0.000000001": AT * 10**9 + 1,
    "2024-04-23 19:51:07 +0000 UTC": AT * 10**9,
    "2024-04-23 21:51:07 +0200 CEST m=+5": AT * 10**9,
    "2024-04-23 16:51:07.5 -0300 -03": AT * 10**9 + 500_000_000,
    "2024-04-24 01:21:07 +0530 +0530": AT * 10**9,
    "2024-04-23T19:51:07Z": AT * 10**9,
    "2024-04-23T21:51:07.25+02:00": AT * 10**9 + 250_000_000,
    "2024-02-29 00:00:00 +0000 UTC": 1_709_164_800 * 10**9,
}
NONE = [
    "",
    "0001-01-01 00:00:00 +0000 UTC",
    "1969-12-31 23:59:59 +0000 UTC",
    "2023-02-29 00:00:00 +0000 UTC",
    "2024-13-01 00:00:00 +0000 UTC",
    "2024-04-23 24:00:00 +0000 UTC",
    "2024-04-23 19:60:07 +0000 UTC",
    "2024-04-23 19:51:60 +0000 UTC",
    "2024-04-23 19:51:07",
    "2024-04-23 19:51:07. +0000 UTC",
    "2024-04-23 19:51:07.1234567890 +0000 UTC",
    "2024-04-23 19:51:07 +0000",
    "2024-04-23 19:51:07 +0000 UTC m=",
    "2024-04-23 19:51:07 +0000 UTC trailing",
    "２０２４-04-23 19:51:07 +0000 UTC",
    "yesterday",
    "1713901867",
    "\0",
]


@pytest.mark.parametrize("text", READ)
def test_times_are_read(text: str):
    assert gotime.nanoseconds(text) == READ[text]
    assert not gotime.unreadable(text)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_time_is_none(text: str):
    assert gotime.nanoseconds(text) is None
    assert gotime.unreadable(text) is (text not in ("", gotime.ZERO))


@given(st.text(alphabet="0123456789-: .+TZUTCm=", max_size=60))
def test_no_text_raises(text: str):
    gotime.nanoseconds(text)


@given(
    st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2200, 1, 1)),
    st.integers(0, 9),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from(["UTC", "CEST", "+03", "-0930"]),
    st.sampled_from(["", " m=+0.000000001", " m=+99999.5", " m=-3"]),
    st.integers(0, 10**9 - 1),
)
def test_every_length_of_fraction_and_every_zone(
    local: datetime, digits: int, zone: int, name: str, monotonic: str, fraction: int
):
    local = local.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=zone)))
    shown = f"{fraction:09d}"[:digits]
    text = f"{local:%Y-%m-%d %H:%M:%S}{'.' * bool(digits)}{shown} {local:%z} {name}{monotonic}"
    exact = int(local.timestamp()) * 10**9 + int(shown.ljust(9, "0") or 0)
    assert gotime.nanoseconds(text) == exact


@given(st.integers(1, 4_000_000_000 * 10**9))
def test_what_is_written_is_read_again(at: int):
    text = gotime.written(at)
    assert gotime.nanoseconds(text) == at
    assert text.startswith(f"{datetime.fromtimestamp(at // 10**9, UTC):%Y-%m-%d %H:%M:%S}")
    assert text.endswith(" +0000 UTC")
