"""Kubernetes quantities as exact integers.

Called by `wire.resources`, by the scenario parser and by tests. Must never use floats: an amount that
is off by one milli-core places a pod where kube-scheduler would have refused it.

Grammar: k8s.io/apimachinery/pkg/api/resource (signed decimal, then a binary SI, a decimal SI or a
decimal exponent suffix). Rounding is up, for requests and for allocatable alike, as kube-scheduler's
`Value()` and `MilliValue()` do.
"""

import re
from fractions import Fraction
from functools import lru_cache

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL = {
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
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d+))?", re.ASCII)


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity; the message says what was read."""


@lru_cache(maxsize=65536)
def _exact(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity (expected for example 500m, 2, 1.5Gi)")
    number, binary, decimal, exponent = match.groups()
    value = Fraction(number)
    if binary:
        return value * _BINARY[binary]
    if exponent:
        if abs(int(exponent)) > 30:
            raise QuantityError(f"{text!r}: exponent out of range")
        return value * Fraction(10) ** int(exponent)
    return value * _DECIMAL[decimal or ""]


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def exact(text: str | int) -> Fraction:
    """The quantity as it is: several are added first and rounded once, as kube-scheduler does."""
    return Fraction(text) if isinstance(text, int) else _exact(text)


def ceiling(resource: str, value: Fraction) -> int:
    """An exact sum in the unit Fairlead keeps that resource in, rounded up."""
    return _ceil(value * 1000) if resource == "cpu" else _ceil(value)


def whole(text: str | int) -> int:
    """The quantity in whole units (bytes, devices), rounded up."""
    return text if isinstance(text, int) else _ceil(_exact(text))


def milli(text: str | int) -> int:
    """The quantity in thousandths (milli-cores), rounded up."""
    return text * 1000 if isinstance(text, int) else _ceil(_exact(text) * 1000)


def amount(resource: str, text: str | int) -> int:
    """The quantity in the unit Fairlead keeps that resource in: cpu in milli-cores, the rest whole."""
    return milli(text) if resource == "cpu" else whole(text)


def show(resource: str, value: int) -> str:
    """An amount for people: `cpu` 1500 is "1.5", memory in the largest binary unit that is exact."""
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value / 1000:g}"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, unit in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if value and value % unit == 0:
                return f"{value // unit}{suffix}"
    return str(value)
