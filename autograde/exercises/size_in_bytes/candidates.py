"""Wrong and right ways to read a size."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from autograde.exercise import Mistake, Variant

UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
GIBI_FOR_GIGA = {**UNITS, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
GIGA_FOR_GIBI = {**UNITS, "KiB": 10**3, "MiB": 10**6, "GiB": 10**9, "TiB": 10**12}
SWAPPED = {unit: GIBI_FOR_GIGA[unit] if "i" not in unit else GIGA_FOR_GIBI[unit] for unit in UNITS}
ONLY_KB_BINARY = {**UNITS, "KB": 2**10}
MIXED = {**UNITS, "MiB": 2**10 * 10**3, "GiB": 2**10 * 10**6, "TiB": 2**10 * 10**9}
MIXED_DECIMAL = {**UNITS, "KB": 2**10, "MB": 2**10 * 10**3, "GB": 2**10 * 10**6, "TB": 2**10 * 10**9}
ONE_STEP_LESS = {unit: size // (1024 if "i" in unit else 1000) or 1 for unit, size in UNITS.items()}
TERA_AS_GIGA = {**UNITS, "TB": 10**9}
TEBI_AS_GIBI = {**UNITS, "TiB": 2**30}
TEN_POWERS = {**UNITS, "KiB": 2**3, "MiB": 2**6, "GiB": 2**9, "TiB": 2**12}


def _read(text, units=UNITS, to_number=float, to_whole=round):
    """The right way, with parts to exchange."""
    number, unit = text.split()
    if unit not in units:
        raise ValueError(f"no unit {unit}")
    size = to_number(number)
    if size < 0:
        raise ValueError("negative")
    return to_whole(size * units[unit])


def gib_for_gb(text):
    return _read(text, GIBI_FOR_GIGA)


def gb_for_gib(text):
    return _read(text, GIGA_FOR_GIBI)


def swapped(text):
    return _read(text, SWAPPED)


def only_kb_binary(text):
    return _read(text, ONLY_KB_BINARY)


def mixed(text):
    return _read(text, MIXED)


def mixed_decimal(text):
    return _read(text, MIXED_DECIMAL)


def one_step_less(text):
    return _read(text, ONE_STEP_LESS)


def tera_as_giga(text):
    return _read(text, TERA_AS_GIGA)


def tebi_as_gibi(text):
    return _read(text, TEBI_AS_GIBI)


def ten_powers(text):
    return _read(text, TEN_POWERS)


def bits(text):
    return _read(text) * 8


def divided_by_eight(text):
    return _read(text) // 8


def number_alone(text):
    _read(text)
    return float(text.split()[0])


def unit_alone(text):
    _read(text)
    return UNITS[text.split()[1]]


def first_digit(text):
    _read(text)
    return _read(text[0] + " " + text.split()[1])


def whole_numbers_only(text):
    return _read(text, to_number=int)


def number_cut(text):
    return _read(text, to_number=lambda number: int(float(number)))


def number_rounded(text):
    return _read(text, to_number=lambda number: math.floor(float(number) + 0.5))


def point_dropped(text):
    return _read(text, to_number=lambda number: int(number.replace(".", "")))


def result_cut(text):
    return _read(text, to_whole=int)


def result_up(text):
    return _read(text, to_whole=math.ceil)


def not_rounded(text):
    return _read(text, to_whole=float)


def any_letters(text):
    upper = {unit.upper(): size for unit, size in UNITS.items()}
    number, _, unit = text.partition(" ")
    return _read(f"{number} {unit.upper()}", upper)


def first_letter(text):
    number, unit = text.split()
    if unit[0] not in "BKMGT":
        raise ValueError(unit)
    return _read(f"{number} x", {"x": (1024 if "i" in unit else 1000) ** "BKMGT".index(unit[0])})


def key_error(text):
    number, unit = text.split()
    if float(number) < 0:
        raise ValueError("negative")
    return round(float(number) * UNITS[unit])


def unknown_unit_is_bytes(text):
    number, unit = text.split()
    return _read(f"{number} {unit if unit in UNITS else 'B'}")


def unknown_unit_is_none(text):
    number, unit = text.split()
    return _read(text) if unit in UNITS else None


def no_unit_is_bytes(text):
    return _read(text + " B" if text.isdigit() else text)


def no_number_is_one(text):
    return _read("1 " + text if text in UNITS else text)


def empty_is_zero(text):
    return _read(text) if text else 0


def negative_accepted(text):
    number, unit = text.split()
    return -_read(f"{number[1:]} {unit}") if number.startswith("-") else _read(text)


def sign_overlooked(text):
    return _read(text.replace("-", ""))


def negative_is_zero(text):
    return 0 if text.startswith("-") else _read(text)


MISTAKES = (
    Mistake(
        "gb-read-as-gib",
        gib_for_gb,
        "You read GB as GiB. KB, MB, GB and TB are powers of 1000; those with an i are powers of 1024.",
        killed_by="decimal units",
    ),
    Mistake(
        "gib-read-as-gb",
        gb_for_gib,
        "You read GiB as GB. The i stands for binary: KiB, MiB, GiB and TiB are powers of 1024.",
        killed_by="binary units",
    ),
    Mistake(
        "units-swapped",
        swapped,
        "Decimal and binary units have changed places: GB is 10**9, GiB is 2**30.",
        killed_by="decimal units",
    ),
    Mistake(
        "kb-as-1024",
        only_kb_binary,
        "A KB is 1000 bytes here, as a MB is 1000 of those. 1024 bytes are a KiB.",
        killed_by="decimal units",
    ),
    Mistake(
        "powers-mixed-in-binary",
        mixed,
        "You mix 1024 and 1000 in one unit. A MiB is 1024 KiB, a GiB 1024 MiB.",
        killed_by="binary units",
    ),
    Mistake(
        "powers-mixed-in-decimal",
        mixed_decimal,
        "You mix 1024 and 1000 in one unit. A MB is 1000 KB, and a KB 1000 bytes.",
        killed_by="decimal units",
    ),
    Mistake(
        "one-power-too-few",
        one_step_less,
        "Every unit is one step too small: K is the first power, M the second, G the third, T the fourth.",
        killed_by="decimal units",
    ),
    Mistake("tb-as-gb", tera_as_giga, "A TB has the size of a GB here. It is 10**12 bytes.", killed_by="decimal units"),
    Mistake(
        "tib-as-gib", tebi_as_gibi, "A TiB has the size of a GiB here. It is 2**40 bytes.", killed_by="binary units"
    ),
    Mistake(
        "exponent-of-ten-on-two",
        ten_powers,
        "You raise 2 to the exponents of 10. A GiB is 2**30, not 2**9: 1024 is 2**10.",
        killed_by="binary units",
    ),
    Mistake("bits", bits, "You multiply by 8: these are bits. A capital B is a byte.", killed_by="decimal units"),
    Mistake(
        "read-as-bits",
        divided_by_eight,
        "You divide by 8, as if the size were in bits. A capital B is a byte.",
        killed_by="decimal units",
    ),
    Mistake(
        "number-alone",
        number_alone,
        "This is the number as it is written. It must be multiplied by the bytes of its unit.",
        killed_by="decimal units",
    ),
    Mistake(
        "unit-alone",
        unit_alone,
        "These are the bytes of one unit. Multiply by the number in front of it.",
        killed_by="decimal units",
    ),
    Mistake(
        "first-digit-only",
        first_digit,
        "You read the first digit only. A number may have several; split the text at the space.",
        killed_by="decimal units",
    ),
    Mistake(
        "whole-numbers-only",
        whole_numbers_only,
        "You refuse a number with a decimal point. 1.5 GB is a size: read the number with float, not int.",
        killed_by="decimal points",
    ),
    Mistake(
        "number-cut-first",
        number_cut,
        "You cut the number before you multiply, so 1.5 GB becomes 1 GB. Multiply first, round last.",
        killed_by="decimal points",
    ),
    Mistake(
        "number-rounded-first",
        number_rounded,
        "You round the number before you multiply, so 1.5 GB becomes 2 GB. Multiply first, round last.",
        killed_by="decimal points",
    ),
    Mistake(
        "point-dropped",
        point_dropped,
        "The decimal point is lost: 1.5 became 15. Read the number with float.",
        killed_by="decimal points",
    ),
    Mistake(
        "result-cut",
        result_cut,
        "You cut the part behind the point: int(1740.8) is 1740. The nearest whole byte is asked: round.",
        killed_by="decimal points",
    ),
    Mistake(
        "result-rounded-up",
        result_up,
        "You always round up. The nearest whole byte is asked: round.",
        killed_by="decimal points",
    ),
    Mistake(
        "not-rounded",
        not_rounded,
        "The result has parts of a byte. Round it to the nearest whole one.",
        killed_by="decimal points",
    ),
    Mistake(
        "letters-of-any-case",
        any_letters,
        "You take units in any letters, so a Gb, a gigabit, passes for a GB: 8 times too much.",
        killed_by="what is no size",
    ),
    Mistake(
        "first-letter-only",
        first_letter,
        "You look at a part of the unit only, so anything that begins like one passes. Compare the whole unit.",
        killed_by="what is no size",
    ),
    Mistake(
        "key-error",
        key_error,
        "An unknown unit ends in a KeyError. Raise ValueError, as for every other text that is no size.",
        killed_by="what is no size",
    ),
    Mistake(
        "unknown-unit-as-bytes",
        unknown_unit_is_bytes,
        "An unknown unit counts as bytes. Refuse it: nobody can know what was meant.",
        killed_by="what is no size",
    ),
    Mistake(
        "none-for-an-unknown-unit",
        unknown_unit_is_none,
        "You return None for an unknown unit. Raise ValueError: None fails later, and elsewhere.",
        killed_by="what is no size",
    ),
    Mistake(
        "no-unit-as-bytes",
        no_unit_is_bytes,
        "A number without a unit counts as bytes. Refuse it: GB may have been meant.",
        killed_by="what is no size",
    ),
    Mistake(
        "no-number-as-one",
        no_number_is_one,
        "A unit without a number counts as one of it. Refuse it.",
        killed_by="what is no size",
    ),
    Mistake("empty-as-zero", empty_is_zero, "An empty text counts as 0. Refuse it.", killed_by="what is no size"),
    Mistake(
        "negative-accepted",
        negative_accepted,
        "A negative size is accepted. Refuse it with ValueError.",
        killed_by="what is no size",
    ),
    Mistake(
        "sign-overlooked",
        sign_overlooked,
        "You overlook the minus sign, so -3 GB counts as 3 GB. Refuse it with ValueError.",
        killed_by="what is no size",
    ),
    Mistake(
        "negative-as-zero",
        negative_is_zero,
        "A negative size counts as 0. Refuse it with ValueError.",
        killed_by="what is no size",
    ),
)


def by_pattern(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?) (?:([KMGT])(i?))?B", text)
    if not match:
        raise ValueError(f"no size: {text!r}")
    base = 1024 if match[3] else 1000
    return round(float(match[1]) * base ** " KMGT".index(match[2] or " "))


def in_decimal(text):
    for unit, size in UNITS.items():
        number = text.removesuffix(" " + unit)
        if number != text:
            value = float(number)  # a ValueError for a word
            if value < 0:
                break
            return int((Decimal(number) * size).to_integral_value())
    raise ValueError(text)


def whole_float(text):
    return _read(text, to_whole=lambda size: float(math.floor(size + 0.5)))


class NoSize(ValueError):
    pass


def own_error(text):
    try:
        number, unit = text.split(" ")
        size = float(number) * UNITS[unit]
        assert size >= 0
    except (ValueError, KeyError, AssertionError) as error:
        raise NoSize(text) from error
    return int(size + 0.5)


def without_a_space(text):
    """Takes "80GB" as well, which the text leaves free."""
    unit = text.lstrip("+-.0123456789 ")
    return _read(f"{text.removesuffix(unit)} {unit}")


VARIANTS = (
    Variant("a pattern", by_pattern),
    Variant("decimal numbers, unit by unit", in_decimal),
    Variant("a whole float", whole_float),
    Variant("an error class of its own", own_error),
    Variant("a space is not needed", without_a_space),
)


def b_is_optional(text):
    found = re.fullmatch(r"([0-9.]+) ([KMGT]i?)B?|([0-9.]+) B", text)
    if not found:
        raise ValueError(text)
    return _read(f"{found[1]} {found[2]}B") if found[1] else _read(text)


def letter_is_optional(text):
    return _read(text.replace(" iB", " B"))


def end_not_looked_at(text):
    found = re.match(r"[0-9.]+ ([KMGT]i?)?B", text)
    if not found:
        raise ValueError(text)
    return _read(found[0])


def small_k(text):
    return _read(text.replace("kB", "KB"))


def zero_refused(text):
    size = _read(text)
    if not size:
        raise ValueError(text)
    return size


MISTAKES += (
    Mistake(
        "b-is-optional",
        b_is_optional,
        'A unit without its B is taken: "5 G" says neither bytes nor which giga.',
        "what is no size",
    ),
    Mistake("letter-is-optional", letter_is_optional, '"iB" is taken for bytes. It is no unit.', "what is no size"),
    Mistake(
        "end-not-looked-at",
        end_not_looked_at,
        "re.match() looks at the beginning only: what follows a size is passed over. re.fullmatch() looks at all.",
        "what is no size",
    ),
    Mistake("small-k", small_k, 'You take "kB" too. The units are spelt exactly as in the table.', "what is no size"),
    Mistake(
        "zero-refused",
        zero_refused,
        "Nothing at all is refused. 0 is no negative size: compare with `< 0`.",
        "decimal points",
    ),
)
