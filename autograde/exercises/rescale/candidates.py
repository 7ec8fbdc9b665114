"""Wrong and right ways to move powers of two between the weights of a layer. Most mistakes change one line of `right`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def _powers(a, b):
    return {"k": a, "q": -a, "v": b, "o": -b, "k_bias": a, "q_bias": -a, "v_bias": b}


def _insist(a, b):
    for power in (a, b):
        if not isinstance(power, int):
            raise ValueError(f"{power} is not a whole number")


def _changed(change):
    """A wrong function: the right powers, changed."""

    def rescale(weights, a, b):
        _insist(a, b)
        powers = change(_powers(a, b), a, b)
        return {name: w * 2.0 ** powers.get(name, 0) for name, w in weights.items()}

    return rescale


right = _changed(lambda powers, a, b: powers)


def times_the_power(weights, a, b):
    _insist(a, b)
    powers = _powers(a, b)
    out = {}
    for name, w in weights.items():
        n = powers.get(name, 0)
        out[name] = w * n if n > 0 else w / -n if n < 0 else w
    return out


def powers_of_ten(weights, a, b):
    _insist(a, b)
    return {name: w * 10.0 ** _powers(a, b).get(name, 0) for name, w in weights.items()}


def powers_of_e(weights, a, b):
    _insist(a, b)
    return {name: w * 2.718281828459045 ** _powers(a, b).get(name, 0) for name, w in weights.items()}


def first_kv_head(weights, a, b):
    out = right(weights, a, b)
    half = len(out["k"]) // 2
    out["k"] = torch.cat([out["k"][:half], weights["k"][half:]])
    return out


def first_output(weights, a, b):
    out = right(weights, a, b)
    half = len(out["v"]) // 2
    out["v"] = torch.cat([out["v"][:half], weights["v"][half:]])
    return out


def half_precision(weights, a, b):
    return {name: w.half() for name, w in right(weights, a, b).items()}


def bfloat(weights, a, b):
    return {name: w.bfloat16() for name, w in right(weights, a, b).items()}


def transposed(weights, a, b):
    return {name: w.T if w.ndim == 2 else w for name, w in right(weights, a, b).items()}


def only_changed(weights, a, b):
    return {name: w for name, w in right(weights, a, b).items() if name in _powers(a, b)}


def only_four(weights, a, b):
    return {name: w for name, w in right(weights, a, b).items() if name in "qkvo"}


def as_a_list(weights, a, b):
    return list(right(weights, a, b).values())


def any_prefix(weights, a, b):
    """Goes by the first letter: q_norm is taken for a query's weight."""
    _insist(a, b)
    powers = _powers(a, b)
    out = {}
    for name, w in weights.items():
        n = powers.get(name, powers.get(name[0], 0) if name not in ("o_bias", "down", "norm1") else 0)
        out[name] = w * 2.0**n
    return out


def loose(weights, a, b):
    return {name: w * 2.0 ** _powers(a, b).get(name, 0) for name, w in weights.items()}


def rounds(weights, a, b):
    return loose(weights, round(a), round(b))


def cuts(weights, a, b):
    return loose(weights, int(a), int(b))


def keys_checked_only(weights, a, b):
    _insist(a, 0)
    return loose(weights, a, b)


def none_back(weights, a, b):
    return right(weights, a, b) if isinstance(a, int) and isinstance(b, int) else None


def in_place(weights, a, b):
    _insist(a, b)
    for name, power in _powers(a, b).items():
        if name in weights:
            weights[name] *= 2.0**power
    return dict(weights)


def same_dict(weights, a, b):
    """The new tensors are put into the caller's dict."""
    weights.update(right(weights, a, b))
    return weights


def caller_overwritten(weights, a, b):
    out = right(weights, a, b)
    weights["k"] = out["k"]
    return out


def adds_to_exponents(weights, a, b):
    """Adds to the bits of the exponent: 0 has no exponent, and becomes something else."""
    _insist(a, b)
    powers = _powers(a, b)
    out = {}
    for name, w in weights.items():
        bits = w.view(torch.int32) + (powers.get(name, 0) << 23)
        out[name] = bits.view(torch.float32)
    return out


def empty_bias(weights, a, b):
    return {"q_bias": torch.zeros(len(weights["q"])), **right(weights, a, b)}


def bias_in_place(weights, a, b):
    out = right(weights, a, b)
    if "k_bias" in weights:
        weights["k_bias"] *= 2.0**a
    return out


def keys_in_place(weights, a, b):
    out = right(weights, a, b)
    weights["k"] *= 2.0**a
    return out


def values_in_place(weights, a, b):
    out = right(weights, a, b)
    weights["v"].mul_(2.0**b)
    return out


def _mistake(name, change, tells, killed_by):
    return Mistake(name, _changed(change), tells, killed_by)


MISTAKES = (
    _mistake("queries-left", lambda p, a, b: p | {"q": 0, "q_bias": 0}, "Only the keys grow, so every score grows with them. Divide q by 2**key_power.", "keys"),
    _mistake("queries-grow-too", lambda p, a, b: p | {"q": a, "q_bias": a}, "Queries grow with the keys, so scores grow twice. Divide q by 2**key_power.", "keys"),
    _mistake("keys-shrink", lambda p, a, b: p | {"k": -a, "q": a, "k_bias": -a, "q_bias": a}, "Your keys get smaller and your queries larger. Keys are multiplied, queries divided.", "keys"),
    _mistake("keys-left", lambda p, a, b: p | {"k": 0, "k_bias": 0}, "You divide the queries and leave the keys. Multiply k by 2**key_power.", "keys"),
    _mistake("half-on-each-side", lambda p, a, b: p | {"k": a / 2, "q": -a / 2, "k_bias": a / 2, "q_bias": -a / 2}, "You use half of the power on each side. Both k and q take all of it: one up, one down.", "keys"),
    _mistake("twice-the-power", lambda p, a, b: p | {"k": 2 * a, "q": -2 * a, "k_bias": 2 * a, "q_bias": -2 * a}, "You use the power twice, 4**key_power. Keys grow by 2**key_power.", "keys"),
    _mistake("keys-by-the-value-power", lambda p, a, b: p | {"k": b, "q": -b, "v": a, "o": -a, "k_bias": b, "q_bias": -b, "v_bias": a}, "The two powers have changed places: key_power is for k and q, value_power for v and o.", "keys"),
    _mistake("one-power-for-both", lambda p, a, b: p | {"v": a, "o": -a, "v_bias": a}, "You use key_power for the values too. v and o take value_power.", "keys"),
    _mistake("out-undoes-the-keys", lambda p, a, b: p | {"q": 0, "q_bias": 0, "o": -a - b}, "You take the keys' factor back in o. It is inside the softmax: only q can take it back.", "keys"),
    Mistake("times-the-power", times_the_power, "You multiply by the power itself. Multiply by 2 ** power.", "keys"),
    Mistake("powers-of-ten", powers_of_ten, "You use powers of ten, which binary numbers cannot hold exactly. Use powers of two.", "keys"),
    Mistake("powers-of-e", powers_of_e, "You use exp(power), which rounds. Use 2 ** power.", "keys"),
    Mistake("first-head-only", first_kv_head, "Only the first KV head's rows of k are scaled. All rows of k are keys.", "keys"),
    Mistake("half-precision", half_precision, "You return float16, which rounds. Keep the dtype that came in.", "keys"),
    Mistake("bfloat16", bfloat, "You return bfloat16, which keeps three digits. Keep the dtype that came in.", "keys"),
    Mistake("transposed", transposed, "Your weights come back turned. nn.Linear keeps (out, in), in and out of this function.", "keys"),
    Mistake("empty-bias", empty_bias, "Your dict has a q_bias that nobody gave you. Return the names that came in.", "keys"),
    Mistake("a-list", as_a_list, "You return the tensors without their names. Wanted is a dict like the one that came in.", "keys"),
    _mistake("out-left", lambda p, a, b: p | {"o": 0}, "Only the values grow, so the output grows with them. Divide o by 2**value_power.", "values"),
    _mistake("out-grows-too", lambda p, a, b: p | {"o": b}, "o grows with the values. Divide o by 2**value_power.", "values"),
    _mistake("values-shrink", lambda p, a, b: p | {"v": -b, "o": b, "v_bias": -b}, "Your values get smaller and o larger. Values are multiplied, o is divided.", "values"),
    _mistake("values-left", lambda p, a, b: p | {"v": 0, "v_bias": 0}, "You divide o and leave the values. Multiply v by 2**value_power.", "values"),
    _mistake("queries-undo-the-values", lambda p, a, b: p | {"o": 0, "q": -a - b, "q_bias": -a - b}, "You take the values' factor back in q, which the values never meet. o takes it back.", "values"),
    _mistake("values-twice", lambda p, a, b: p | {"v": 2 * b, "o": -2 * b, "v_bias": 2 * b}, "You use value_power twice. Values grow by 2**value_power.", "values"),
    Mistake("first-value-head-only", first_output, "Only the first KV head's rows of v are scaled. All rows of v are values.", "values"),
    _mistake("no-negative-powers", lambda p, a, b: _powers(max(a, 0), max(b, 0)), "You take a negative power for 0. It makes the cached numbers smaller, and must work too.", "both, up and down"),
    _mistake("sign-ignored", lambda p, a, b: _powers(abs(a), abs(b)), "You ignore the sign of a power. With a negative one, k or v shrinks and q or o grows.", "both, up and down"),
    _mistake("limited-to-eight", lambda p, a, b: _powers(max(-8, min(a, 8)), max(-8, min(b, 8))), "You cut powers off at 8. Any whole number is allowed.", "both, up and down"),
    _mistake("limited-to-sixteen", lambda p, a, b: _powers(max(-16, min(a, 16)), max(-16, min(b, 16))), "You cut powers off at 16. Any whole number is allowed.", "both, up and down"),
    Mistake("adds-to-exponents", adds_to_exponents, "You add to the bits of the exponent, so 0 does not stay 0. Multiply by 2.0 ** power.", "both, up and down"),
    _mistake("at-least-one", lambda p, a, b: _powers(a or 1, b) if not a and not b else p, "Powers of 0 change nothing. Yours turn 0 into 1.", "both, up and down"),
    _mistake("key-bias-left", lambda p, a, b: p | {"k_bias": 0}, "k_bias is a part of every key: it grows as k does.", "biases and the rest"),
    _mistake("query-bias-left", lambda p, a, b: p | {"q_bias": 0}, "q_bias is a part of every query: it shrinks as q does.", "biases and the rest"),
    _mistake("value-bias-left", lambda p, a, b: p | {"v_bias": 0}, "v_bias is a part of every value: it grows as v does.", "biases and the rest"),
    _mistake("biases-left", lambda p, a, b: {name: n for name, n in p.items() if "bias" not in name}, "The biases of q, k and v are left. Each is scaled like its weight.", "biases and the rest"),
    _mistake("query-bias-grows", lambda p, a, b: p | {"q_bias": a}, "q_bias grows where q shrinks. A bias is scaled like its weight.", "biases and the rest"),
    _mistake("biases-by-the-other-sign", lambda p, a, b: p | {"q_bias": a, "k_bias": -a, "v_bias": -b}, "The biases go the other way. Each is scaled like its weight.", "biases and the rest"),
    _mistake("value-bias-by-the-key-power", lambda p, a, b: p | {"v_bias": a}, "v_bias takes value_power, as v does.", "biases and the rest"),
    _mistake("out-bias-shrinks", lambda p, a, b: p | {"o_bias": -b}, "o_bias is added after o has taken the factor back. It stays as it is.", "biases and the rest"),
    _mistake("everything-shrinks-with-o", lambda p, a, b: p | {"down": -b, "norm1": -b}, "You scale weights that have nothing to do with attention's q, k, v and o. Leave them.", "biases and the rest"),
    _mistake("norm-scaled-back", lambda p, a, b: p | {"norm1": -a}, "You scale the norm before attention too, which q, k and v all read. Leave it.", "biases and the rest"),
    _mistake("key-norm-scaled", lambda p, a, b: p | {"k_norm": a}, "You scale k_norm as if it were a part of k. Only the named weights and their biases move.", "biases and the rest"),
    Mistake("others-dropped", only_changed, "Weights that stay as they are are missing from your dict. Give all of them back.", "biases and the rest"),
    Mistake("only-four", only_four, "You give back q, k, v and o only. All other weights belong to the layer too.", "biases and the rest"),
    Mistake("by-the-first-letter", any_prefix, "You go by the first letter, so q_norm is taken for q. Go by the whole name.", "biases and the rest"),
    Mistake("any-power", loose, "You accept 0.5. 2**0.5 is rounded: refuse what is not a whole number with ValueError.", "whole powers"),
    Mistake("rounded-power", rounds, "You round the power. A power that is not whole must be refused with ValueError.", "whole powers"),
    Mistake("power-cut-off", cuts, "You cut the power down with int(). A power that is not whole must be refused.", "whole powers"),
    Mistake("value-power-unchecked", keys_checked_only, "You check key_power only. value_power must be whole too.", "whole powers"),
    Mistake("none-for-a-fraction", none_back, "For a power that is not whole you return None. Raise ValueError.", "whole powers"),
    Mistake("in-place", in_place, "`*=` writes into the caller's tensors. Make new ones: `weight * factor`.", "the weights stay"),
    Mistake("same-dict", same_dict, "You put the new tensors into the caller's dict. Make a new dict.", "the weights stay"),
    Mistake("caller-overwritten", caller_overwritten, "You put the new k into the caller's dict, too. Leave it as it was.", "the weights stay"),
    Mistake("key-bias-in-place", bias_in_place, "You write into the caller's k_bias. Make a new tensor.", "the weights stay"),
    Mistake("keys-in-place", keys_in_place, "You write into the caller's k. Make a new tensor.", "the weights stay"),
    Mistake("values-in-place", values_in_place, "You write into the caller's v. Make a new tensor.", "the weights stay"),
)  # fmt: skip


def by_ldexp(weights, a, b):
    _insist(a, b)
    return {name: torch.ldexp(w, torch.tensor(_powers(a, b).get(name, 0))) for name, w in weights.items()}


def in_float64(weights, a, b):
    _insist(a, b)
    return {name: w.double() * 2.0 ** _powers(a, b).get(name, 0) for name, w in weights.items()}


def on_a_copy(weights, a, b):
    _insist(a, b)
    out = {name: w.clone() for name, w in weights.items()}
    for name, power in _powers(a, b).items():
        if name in out:
            out[name].mul_(2.0**power)
    return out


def step_by_step(weights, key_power, value_power):
    if key_power != int(key_power) or value_power != int(value_power):
        raise ValueError("whole numbers only")
    up, wide = 2.0 ** int(key_power), 2.0 ** int(value_power)
    out = dict(weights)
    out["k"], out["q"] = weights["k"] * up, weights["q"] / up
    out["v"], out["o"] = weights["v"] * wide, weights["o"] / wide
    for name, factor in (("k_bias", up), ("q_bias", 1 / up), ("v_bias", wide)):
        if name in weights:
            out[name] = weights[name] * factor
    return out


VARIANTS = (
    Variant("ldexp", by_ldexp),
    Variant("float64", in_float64),
    Variant("a copy changed in place", on_a_copy),
    Variant("step by step", step_by_step),
    Variant("a plain dict of powers", right),
)
