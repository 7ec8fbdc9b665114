"""Wrong and right ways to count the bytes of layers that differ."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant


def _full(layer, tokens, width):
    return 2 * layer["num_kv_heads"] * layer["head_dim"] * tokens * width


def _window(layer, tokens, width):
    return _full(layer, min(tokens, layer["window"]), width)


def _latent(layer, tokens, width):
    return (layer["kv_lora_rank"] + layer["qk_rope_head_dim"]) * tokens * width


def _state(layer, tokens, width):
    return layer["state_bytes"]


def _shared(layer, tokens, width):
    return 0


RIGHT = {"full": _full, "window": _window, "latent": _latent, "state": _state, "shared": _shared}


def _with(**changes):
    """The right way, with kinds exchanged."""
    rules = {**RIGHT, **changes}

    def layer_bytes(layers, num_tokens, bytes_per_element):
        total = 0
        for layer in layers:
            if layer["kind"] not in rules:
                raise ValueError(f"unknown kind {layer['kind']!r}")
            total += rules[layer["kind"]](layer, num_tokens, bytes_per_element)
        return total

    return layer_bytes


_right = _with()


def keys_only(layer, tokens, width):
    return _full(layer, tokens, width) // 2


def no_heads(layer, tokens, width):
    return 2 * layer["head_dim"] * tokens * width


def no_head_dim(layer, tokens, width):
    return 2 * layer["num_kv_heads"] * tokens * width


def one_token(layer, tokens, width):
    return _full(layer, 1, width)


def first_times_all(layers, num_tokens, bytes_per_element):
    _right(layers, num_tokens, bytes_per_element)
    return _right(layers[:1], num_tokens, bytes_per_element) * len(layers)


def last_only(layers, num_tokens, bytes_per_element):
    _right(layers, num_tokens, bytes_per_element)
    return _right(layers[-1:], num_tokens, bytes_per_element)


def equal_once(layers, num_tokens, bytes_per_element):
    different = []
    for layer in layers:
        if layer not in different:
            different.append(layer)
    return _right(different, num_tokens, bytes_per_element)


def two_bytes(layers, num_tokens, bytes_per_element):
    return _right(layers, num_tokens, 2)


def elements(layers, num_tokens, bytes_per_element):
    return _right(layers, num_tokens, 1)


def window_overlooked(layer, tokens, width):
    return _full(layer, tokens, width)


def always_the_window(layer, tokens, width):
    return _full(layer, layer["window"], width)


def larger(layer, tokens, width):
    return _full(layer, max(tokens, layer["window"]), width)


def one_less(layer, tokens, width):
    return _full(layer, min(tokens, layer["window"] - 1), width)


def one_more(layer, tokens, width):
    return _full(layer, min(tokens, layer["window"] + 1), width)


def starts_again(layer, tokens, width):
    return _full(layer, tokens % layer["window"] or layer["window"], width)


def window_keys_only(layer, tokens, width):
    return _window(layer, tokens, width) // 2


def window_grows_by_windows(layer, tokens, width):
    return _full(layer, -(-tokens // layer["window"]) * layer["window"], width)


def window_stays(layers, num_tokens, bytes_per_element):
    total = 0
    for layer in layers:
        if layer["kind"] == "window":
            num_tokens = min(num_tokens, layer["window"])
        total += _with(window=_full)([layer], num_tokens, bytes_per_element)
    return total


def every_layer_in_the_window(layers, num_tokens, bytes_per_element):
    smallest = min([layer["window"] for layer in layers if layer["kind"] == "window"], default=num_tokens)
    return _with(full=lambda layer, tokens, width: _full(layer, min(tokens, smallest), width))(
        layers, num_tokens, bytes_per_element
    )


def latent_twice(layer, tokens, width):
    return 2 * _latent(layer, tokens, width)


def only_latent_twice(layer, tokens, width):
    return _latent(layer, tokens, width) + layer["kv_lora_rank"] * tokens * width


def latent_per_head(layer, tokens, width):
    return _latent(layer, tokens, width) * layer.get("num_attention_heads", 1)


def rope_per_head(layer, tokens, width):
    rope = layer["qk_rope_head_dim"] * layer.get("num_attention_heads", 1)
    return (layer["kv_lora_rank"] + rope) * tokens * width


def no_rope(layer, tokens, width):
    return layer["kv_lora_rank"] * tokens * width


def rope_alone(layer, tokens, width):
    return layer["qk_rope_head_dim"] * tokens * width


def latent_product(layer, tokens, width):
    return layer["kv_lora_rank"] * layer["qk_rope_head_dim"] * tokens * width


def latent_elements(layer, tokens, width):
    return _latent(layer, tokens, 1)


def latent_fixed(layer, tokens, width):
    return _latent(layer, 1, width)


def state_per_token(layer, tokens, width):
    return layer["state_bytes"] * tokens


def state_in_elements(layer, tokens, width):
    return layer["state_bytes"] * width


def state_twice(layer, tokens, width):
    return 2 * layer["state_bytes"]


def nothing_without_tokens(layers, num_tokens, bytes_per_element):
    return _right(layers, num_tokens, bytes_per_element) if num_tokens else 0


def shared_like_the_one_before(layers, num_tokens, bytes_per_element):
    total = before = 0
    for layer in layers:
        if layer["kind"] != "shared":
            before = _right([layer], num_tokens, bytes_per_element)
        total += before
    return total


def shared_half(layers, num_tokens, bytes_per_element):
    total = before = 0
    for layer in layers:
        if layer["kind"] == "shared":
            total += before // 2
        else:
            before = _right([layer], num_tokens, bytes_per_element)
            total += before
    return total


def shared_takes_away(layers, num_tokens, bytes_per_element):
    total = before = 0
    for layer in layers:
        if layer["kind"] == "shared":
            total -= before // 2
        else:
            before = _right([layer], num_tokens, bytes_per_element)
            total += before
    return total


def stops_at_shared(layers, num_tokens, bytes_per_element):
    total = 0
    for layer in layers:
        if layer["kind"] == "shared":
            return total
        total += _right([layer], num_tokens, bytes_per_element)
    return total


def unknown_is_nothing(layers, num_tokens, bytes_per_element):
    return _right([layer for layer in layers if layer["kind"] in RIGHT], num_tokens, bytes_per_element)


def unknown_is_full(layers, num_tokens, bytes_per_element):
    known = [layer if layer["kind"] in RIGHT else {**layer, "kind": "full"} for layer in layers]
    return _right(known, num_tokens, bytes_per_element)


def unknown_is_a_key_error(layers, num_tokens, bytes_per_element):
    return sum(RIGHT[layer["kind"]](layer, num_tokens, bytes_per_element) for layer in layers)


def any_letters(layers, num_tokens, bytes_per_element):
    lower = [{**layer, "kind": str(layer["kind"]).lower()} for layer in layers]
    return _right(lower, num_tokens, bytes_per_element)


def by_a_part_of_the_name(layers, num_tokens, bytes_per_element):
    def known(kind):
        return next((name for name in RIGHT if name in str(kind)), kind)

    found = [{**layer, "kind": known(layer["kind"])} for layer in layers]
    return _right(found, num_tokens, bytes_per_element)


def none_for_unknown(layers, num_tokens, bytes_per_element):
    if any(layer["kind"] not in RIGHT for layer in layers):
        return None
    return _right(layers, num_tokens, bytes_per_element)


def only_the_first_checked(layers, num_tokens, bytes_per_element):
    _right(layers[:1], num_tokens, bytes_per_element)
    return unknown_is_nothing(layers, num_tokens, bytes_per_element)


F, W, L, S, U = "full layers", "windows", "latents", "states and shared layers", "unknown kinds"

MISTAKES = (
    Mistake(
        "keys-only",
        _with(full=keys_only),
        "A full layer counts its keys alone. It keeps a key and a value of every token: twice as much.",
        killed_by=F,
    ),
    Mistake(
        "heads-forgotten",
        _with(full=no_heads),
        "A full layer counts one KV head. It has num_kv_heads of them.",
        killed_by=F,
    ),
    Mistake(
        "head-dim-forgotten",
        _with(full=no_head_dim),
        "A full layer counts vectors. Each has head_dim elements.",
        killed_by=F,
    ),
    Mistake(
        "bytes-of-one-token",
        _with(full=one_token),
        "These are the bytes of one token. A full layer keeps all num_tokens.",
        killed_by=F,
    ),
    Mistake(
        "first-layer-times-all",
        first_times_all,
        "You take every layer to be like the first. Here they differ: go through them one by one.",
        killed_by=F,
    ),
    Mistake(
        "last-layer-only",
        last_only,
        "You count the last layer only. Is a total overwritten in the loop, where it should be added to?",
        killed_by=F,
    ),
    Mistake(
        "equal-layers-counted-once",
        equal_once,
        "Layers that look alike are counted once, as in a set or a dict. Each has a cache of its own.",
        killed_by=F,
    ),
    Mistake(
        "always-two-bytes",
        two_bytes,
        "You count two bytes for each element, as in 16 bit. The last argument says how many there are.",
        killed_by=F,
    ),
    Mistake(
        "elements-not-bytes",
        elements,
        "This is the number of elements. Each takes bytes_per_element bytes.",
        killed_by=F,
    ),
    Mistake(
        "window-overlooked",
        _with(window=window_overlooked),
        "A window layer keeps all tokens here. It needs the last `window` ones only.",
        killed_by=W,
    ),
    Mistake(
        "always-the-whole-window",
        _with(window=always_the_window),
        "A window layer is always full here. A text that is shorter than the window fills a part of it.",
        killed_by=W,
    ),
    Mistake(
        "larger-of-the-two",
        _with(window=larger),
        "You take the larger of num_tokens and window. The window is a limit: take the smaller.",
        killed_by=W,
    ),
    Mistake(
        "window-less-one",
        _with(window=one_less),
        "A full window counts one token less. Here it holds `window` tokens, the newest among them.",
        killed_by=W,
    ),
    Mistake(
        "window-and-one",
        _with(window=one_more),
        "A full window counts one token more. The newest token is one of its `window` tokens.",
        killed_by=W,
    ),
    Mistake(
        "window-starts-again",
        _with(window=starts_again),
        "You take num_tokens % window. A full window stays full: the newest token takes the place of the oldest.",
        killed_by=W,
    ),
    Mistake(
        "window-in-whole-windows",
        _with(window=window_grows_by_windows),
        "You round num_tokens up to whole windows. There is one window, and it never holds more than `window` tokens.",
        killed_by=W,
    ),
    Mistake(
        "window-of-keys-only",
        _with(window=window_keys_only),
        "A window layer counts its keys alone. It keeps values too.",
        killed_by=W,
    ),
    Mistake(
        "window-stays-for-the-next",
        window_stays,
        "A window also shortens the layers after it: num_tokens was overwritten in the loop. Use another variable.",
        killed_by=W,
    ),
    Mistake(
        "window-for-all-layers",
        every_layer_in_the_window,
        "One window layer makes the full layers short as well. Those keep all tokens.",
        killed_by=W,
    ),
    Mistake(
        "latent-twice",
        _with(latent=latent_twice),
        "A latent layer counts twice. K and V are both worked out from the one latent, so there is no factor 2.",
        killed_by=L,
    ),
    Mistake(
        "latent-for-k-and-for-v",
        _with(latent=only_latent_twice),
        "You count one latent for K and one for V. It is the same one: kv_lora_rank enters once.",
        killed_by=L,
    ),
    Mistake(
        "latent-for-each-head",
        _with(latent=latent_per_head),
        "You multiply a latent layer by its heads. All heads share one latent and one rotary key.",
        killed_by=L,
    ),
    Mistake(
        "rotary-key-for-each-head",
        _with(latent=rope_per_head),
        "You count a rotary key for each head. All heads share one.",
        killed_by=L,
    ),
    Mistake(
        "rotary-key-forgotten",
        _with(latent=no_rope),
        "The rotary key is missing: a latent layer also keeps qk_rope_head_dim elements for each token.",
        killed_by=L,
    ),
    Mistake(
        "rotary-key-alone",
        _with(latent=rope_alone),
        "The latent is missing: kv_lora_rank elements for each token.",
        killed_by=L,
    ),
    Mistake(
        "rank-times-rotary",
        _with(latent=latent_product),
        "You multiply kv_lora_rank and qk_rope_head_dim. Both lie side by side: add them.",
        killed_by=L,
    ),
    Mistake(
        "latent-in-elements",
        _with(latent=latent_elements),
        "A latent layer counts elements. Each takes bytes_per_element bytes here too.",
        killed_by=L,
    ),
    Mistake(
        "latent-of-one-token",
        _with(latent=latent_fixed),
        "A latent layer counts one token. It keeps a latent for every token: times num_tokens.",
        killed_by=L,
    ),
    Mistake(
        "state-for-each-token",
        _with(state=state_per_token),
        "You multiply a state by the tokens. It is overwritten with each of them, and never grows.",
        killed_by=S,
    ),
    Mistake(
        "state-in-elements",
        _with(state=state_in_elements),
        "You multiply a state by bytes_per_element. state_bytes is in bytes already.",
        killed_by=S,
    ),
    Mistake(
        "state-twice",
        _with(state=state_twice),
        "You count a state twice. It is no pair of K and V.",
        killed_by=S,
    ),
    Mistake(
        "state-forgotten",
        _with(state=_shared),
        "A state counts 0. It is small, but it takes state_bytes.",
        killed_by=S,
    ),
    Mistake(
        "nothing-without-tokens",
        nothing_without_tokens,
        "Without tokens you answer 0. A state takes its bytes before the first token comes.",
        killed_by=S,
    ),
    Mistake(
        "shared-counted-again",
        shared_like_the_one_before,
        "A shared layer counts like the one before it. It reads that layer's cache, and adds no byte.",
        killed_by=S,
    ),
    Mistake(
        "shared-counted-half",
        shared_half,
        "A shared layer counts half. It reads the K and the V of an earlier layer, and adds no byte.",
        killed_by=S,
    ),
    Mistake(
        "shared-takes-away",
        shared_takes_away,
        "A shared layer makes the total smaller. The earlier layer keeps its whole cache: add 0.",
        killed_by=S,
    ),
    Mistake(
        "stops-at-a-shared-layer",
        stops_at_shared,
        "You stop at the first shared layer. Those after it count as well.",
        killed_by=S,
    ),
    Mistake(
        "unknown-as-nothing",
        unknown_is_nothing,
        "A layer of unknown kind counts 0. Nobody knows what it keeps: raise ValueError.",
        killed_by=U,
    ),
    Mistake(
        "unknown-as-full",
        unknown_is_full,
        "A layer of unknown kind counts as a full one. Nobody knows what it keeps: raise ValueError.",
        killed_by=U,
    ),
    Mistake(
        "unknown-as-a-key-error",
        unknown_is_a_key_error,
        "An unknown kind ends in a KeyError. Raise ValueError, and name the kind.",
        killed_by=U,
    ),
    Mistake(
        "letters-of-any-case",
        any_letters,
        'You take "Full" for "full". Kinds are spelled as the text says; refuse whatever is not.',
        killed_by=U,
    ),
    Mistake(
        "a-part-of-the-name",
        by_a_part_of_the_name,
        "You look for a part of the name. sliding_window is not one of the five kinds: compare the whole name.",
        killed_by=U,
    ),
    Mistake(
        "none-for-unknown",
        none_for_unknown,
        "You return None for an unknown kind. Raise ValueError: None fails later, and elsewhere.",
        killed_by=U,
    ),
    Mistake(
        "only-the-first-checked",
        only_the_first_checked,
        "Only the kind of the first layer is checked. An unknown one may come later.",
        killed_by=U,
    ),
)


def by_chain(layers, num_tokens, bytes_per_element):
    total = 0
    for layer in layers:
        kind = layer["kind"]
        if kind in ("full", "window"):
            held = num_tokens
            if kind == "window" and held > layer["window"]:
                held = layer["window"]
            total += 2 * layer["num_kv_heads"] * layer["head_dim"] * held * bytes_per_element
        elif kind == "latent":
            total += num_tokens * layer["kv_lora_rank"] * bytes_per_element
            total += num_tokens * layer["qk_rope_head_dim"] * bytes_per_element
        elif kind == "state":
            total += layer["state_bytes"]
        elif kind != "shared":
            raise ValueError(f"unknown kind {kind!r}")
    return total


def by_matching(layers, tokens, s):
    def one(layer):
        match layer:
            case {"kind": "full", "num_kv_heads": heads, "head_dim": dim}:
                return 2 * heads * dim * tokens * s
            case {"kind": "window", "num_kv_heads": heads, "head_dim": dim, "window": window}:
                return 2 * heads * dim * min(tokens, window) * s
            case {"kind": "latent", "kv_lora_rank": rank, "qk_rope_head_dim": rope}:
                return (rank + rope) * tokens * s
            case {"kind": "state", "state_bytes": size}:
                return size
            case {"kind": "shared"}:
                return 0
        raise ValueError(layer)

    return sum(map(one, layers))


def per_token_and_fixed(layers, tokens, s):
    elements = fixed = 0
    for layer in layers:
        try:
            kind = {"full": 0, "window": 1, "latent": 2, "state": 3, "shared": 4}[layer["kind"]]
        except KeyError:
            raise ValueError(f"unknown kind {layer['kind']}") from None
        if kind <= 1:
            held = [tokens, min(tokens, layer.get("window", tokens))][kind]
            elements += 2 * held * layer["num_kv_heads"] * layer["head_dim"]
        elif kind == 2:
            elements += tokens * (layer["kv_lora_rank"] + layer["qk_rope_head_dim"])
        elif kind == 3:
            fixed += layer["state_bytes"]
    return elements * s + fixed


def as_float(layers, num_tokens, bytes_per_element):
    return float(by_chain(layers, num_tokens, bytes_per_element))


def from_the_end(layers, tokens, s):
    if not layers:
        return 0
    return by_chain(layers[-1:], tokens, s) + from_the_end(layers[:-1], tokens, s)


VARIANTS = (
    Variant("a chain of ifs", by_chain),
    Variant("pattern matching", by_matching),
    Variant("elements and fixed bytes apart", per_token_and_fixed),
    Variant("a whole float", as_float),
    Variant("recursion", from_the_end),
)


def unnamed(layers, num_tokens, bytes_per_element):
    if any(layer["kind"] not in RIGHT for layer in layers):
        raise ValueError("unknown kind of layer")
    return right(layers, num_tokens, bytes_per_element)


def a_window_wherever_there_is_one(layer, tokens, width):
    return _full(layer, min(tokens, layer.get("window", tokens)), width)


def _by_fields(layer, tokens, width):
    if "kv_lora_rank" in layer:
        return _latent(layer, tokens, width)
    if "state_bytes" in layer:
        return _state(layer, tokens, width)
    return a_window_wherever_there_is_one(layer, tokens, width) if "head_dim" in layer else 0


def window_cut_in_the_layer(layer, tokens, width):
    layer["window"] = min(layer["window"], tokens)
    return _full(layer, layer["window"], width)


def kind_taken_out(layers, num_tokens, bytes_per_element):
    total = 0
    for layer in layers:
        kind = layer.pop("kind")
        if kind not in RIGHT:
            raise ValueError(f"unknown kind {kind!r}")
        total += RIGHT[kind](layer, num_tokens, bytes_per_element)
    return total


right = _with()

MISTAKES += (
    Mistake("unnamed", unnamed, "The ValueError does not say which kind it does not know.", "unknown kinds"),
    Mistake(
        "a-window-wherever-there-is-one",
        _with(full=a_window_wherever_there_is_one),
        "A full layer with a field `window` is cut to it. `kind` alone says what a layer holds.",
        "states and shared layers",
    ),
    Mistake(
        "fields-not-kind",
        _with(**dict.fromkeys(RIGHT, _by_fields)),
        "You go by the fields that a layer has. `kind` says what it holds; other fields may be there too.",
        "states and shared layers",
    ),
    Mistake(
        "window-cut-in-the-layer",
        _with(window=window_cut_in_the_layer),
        "You write the smaller window into the caller's layer: the next, longer text finds it there.",
        "whole models",
    ),
    Mistake(
        "kind-taken-out",
        kind_taken_out,
        "pop() takes `kind` out of the caller's layer: where a layer comes twice, it is gone. Use layer['kind'].",
        "whole models",
    ),
)
