"""Quantities, durations and instants against independent arithmetic."""

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core import durations
from fairlead.model import quantity

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
    "e3": Fraction(1000),
    "E3": Fraction(1000),
    "e-3": Fraction(1, 1000),
    "e+2": Fraction(100),
}


def ceil(value: Fraction) -> int:
    return -((-value) // 1)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "number", ["0", "1", "7", "1.5", "0.1", ".5", "5.", "123456.789", "-1", "+2", "0.0001"]
)
def test_every_suffix(number: str, suffix: str):
    value = Fraction(number.rstrip(".")) * SUFFIXES[suffix]
    assert quantity.exact(number + suffix) == value
    assert quantity.whole(number + suffix) == ceil(value)
    assert quantity.milli(number + suffix) == ceil(value * 1000)
    assert quantity.amount("cpu", number + suffix) == ceil(value * 1000)
    assert quantity.amount("memory", number + suffix) == ceil(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 ",
        " 1",
        "1x",
        "Ki",
        "1ki",
        "1K",
        "1.2.3",
        "--1",
        "1e",
        "1e3Ki",
        "1Kim",
        "0x10",
        "1_000",
        "e3",
        ".",
        "1\n",
        "\u0661",  # a digit, but not one of Kubernetes'
    ],
)
def test_what_is_no_quantity_is_said_to_be_none(text: str):
    with pytest.raises(quantity.QuantityError):
        quantity.exact(text)


@given(st.integers(0, 10**12), st.integers(0, 9), st.sampled_from(sorted(SUFFIXES)))
def test_any_number_is_exact_and_rounded_up(number: int, places: int, suffix: str):
    text = f"{number // 10**places}.{number % 10**places:0{places}d}" if places else str(number)
    value = Fraction(number, 10**places) * SUFFIXES[suffix]
    assert quantity.exact(text + suffix) == value
    assert quantity.whole(text + suffix) == ceil(value)
    assert quantity.milli(text + suffix) == ceil(value * 1000)


@given(st.integers(0, 10**15))
def test_integers_are_whole_units(number: int):
    assert quantity.amount("cpu", number) == number * 1000
    assert quantity.amount("example.com/gpu", number) == number


@given(st.integers(1, 2**45))
def test_what_is_shown_can_be_read_again(number: int):
    assert quantity.whole(quantity.show("memory", number)) == number
    assert quantity.amount("gpu", quantity.show("gpu", number)) == number


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.booleans(),
)
def test_instants_are_those_of_the_calendar(when: datetime, offset: int, fraction: bool):
    local = when.replace(microsecond=when.microsecond // 1000 * 1000 if fraction else 0)
    zoned = local.replace(tzinfo=timezone(timedelta(minutes=offset)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert durations.instant(zoned.isoformat()) == (zoned - epoch) // timedelta(milliseconds=1)
    text = f"{local.isoformat()}Z"
    assert durations.instant(text) == (local.replace(tzinfo=UTC) - epoch) // timedelta(milliseconds=1)


@given(st.integers(1900, 2200), st.integers(0, 13), st.integers(0, 32))
def test_days_that_do_not_exist_are_none(year: int, month: int, day: int):
    text = f"{year:04d}-{month:02d}-{day:02d}T00:00:00Z"
    try:
        expected = datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        assert durations.instant(text) is None
    else:
        assert durations.instant(text) == int(expected.timestamp()) * 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2030-01-31",
        "2030-01-31T08:00",
        "2030-01-31T08:00:00",
        "2030-01-31T24:00:00Z",
        "2030-01-31T08:60:00Z",
        "2030-01-31T08:00:00+24:00",
        "2030-01-31T08:00:00+01:60",
        "2030-02-29T08:00:00Z",
        "٢٠٣٠-01-31T08:00:00Z",
    ],
)
def test_no_instants(text: str):
    assert durations.instant(text) is None


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 999), st.integers(0, 9999))
def test_durations_add_up(days: int, hours: int, minutes: int, seconds: int):
    text = "".join(f"{n}{u}" for n, u in ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")) if n)
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert durations.duration(text) == (total * 1000 or None)
    assert durations.duration(str(total)) == (total * 1000 or None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5h", 5_400_000),
        ("90s", 90_000),
        ("250ms", 250),
        ("0.5s", 500),
        (" 3600 ", 3_600_000),
        ("2h30m", 9_000_000),
        ("0", None),
        ("0s", None),
        ("-1", None),
        ("-5m", None),
        ("1 h", None),
        ("h", None),
        ("ten", None),
        ("1w", None),
        ("1h30", None),
        ("", None),
        ("1.h", None),
        ("٣s", None),
        ("1e3", None),
    ],
)
def test_duration_table(text: str, expected: int | None):
    assert durations.duration(text) == expected
