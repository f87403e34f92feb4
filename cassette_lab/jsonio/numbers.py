"""Numbers as ECMAScript spells them (ECMA-262 ``Number::toString``)."""

from __future__ import annotations

import math

MAX_SAFE_INTEGER = 2**53 - 1


class NumberError(ValueError):
    """A number that canonical JSON has no spelling for: ``-0``, or not finite."""


def number_text(value: float) -> str:
    """The shortest ECMAScript spelling of ``value`` as an IEEE double.

    Raises ``NumberError`` for ``-0`` and for anything that is not finite (or overflows).
    """
    if isinstance(value, int):
        if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            return int.__repr__(value)
        try:
            value = float(value)
        except OverflowError:
            raise NumberError("a number overflows") from None
    if not math.isfinite(value):
        raise NumberError("a number is not finite")
    if value == 0:
        if math.copysign(1.0, value) < 0:
            raise NumberError("a number is -0")
        return "0"
    text = repr(float(value))
    sign = ""
    if text[0] == "-":
        sign, text = "-", text[1:]
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    # value = 0.DIGITS * 10**point
    point = len(whole) + (int(exponent) if exponent else 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"
