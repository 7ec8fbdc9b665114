"""Wrong and right ways to read a config."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant

KNOWN = ("llama", "mistral", "qwen2", "gemma2")


def _need(config, name):
    if name not in config:
        raise ValueError(f"no {name}")
    return config[name]


def _type(config):
    return config.get("model_type")


def _kv_heads(config, heads):
    kv_heads = config.get("num_key_value_heads")
    if kv_heads is None:
        return heads
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"{kv_heads} KV heads for {heads}")
    return kv_heads


def _divide(hidden, heads, kv_heads):
    if hidden % heads:
        raise ValueError(f"{heads} heads do not divide {hidden}")
    return hidden // heads


def _head_dim(config, heads, kv_heads, divide):
    head_dim = config.get("head_dim")
    return divide(_need(config, "hidden_size"), heads, kv_heads) if head_dim is None else head_dim


def _gpt2(config, need, divide):
    heads = need(config, "n_head")
    return _answer(need(config, "n_layer"), heads, divide(need(config, "n_embd"), heads, heads))


def _answer(layers, kv_heads, head_dim):
    return {"num_layers": layers, "num_kv_heads": kv_heads, "head_dim": head_dim}


def _read(
    config, type_of=_type, need=_need, kv=_kv_heads, divide=_divide, head_dim=_head_dim, old=_gpt2, answer=_answer
):
    """The right way, with parts to exchange."""
    model_type = type_of(config)
    if model_type == "gpt2":
        return old(config, need, divide)
    if model_type not in KNOWN:
        raise ValueError(f"unknown model_type {model_type}")
    layers, heads = need(config, "num_hidden_layers"), need(config, "num_attention_heads")
    kv_heads = kv(config, heads)
    return answer(layers, kv_heads, head_dim(config, heads, kv_heads, divide))


def query_heads(config):
    return _read(config, kv=lambda config, heads: (_kv_heads(config, heads), heads)[1])


def divided_by_kv_heads(config):
    return _read(config, divide=lambda hidden, heads, kv_heads: (_divide(hidden, heads, 0), hidden // kv_heads)[1])


def hidden_for_head_dim(config):
    return _read(config, divide=lambda hidden, heads, kv_heads: (_divide(hidden, heads, 0), hidden)[1])


def group_size(config):
    return _read(config, kv=lambda config, heads: heads // _kv_heads(config, heads))


def layers_and_heads_swapped(config):
    return _read(config, answer=lambda layers, kv_heads, head_dim: _answer(kv_heads, layers, head_dim))


def only_llama(config):
    return _read(config, type_of=lambda config: _type(config) if _type(config) in ("llama", "gpt2") else None)


def three_values(config):
    return _read(config, answer=lambda *values: values)


def names_of_the_config(config):
    def answer(layers, kv_heads, head_dim):
        return {"num_hidden_layers": layers, "num_key_value_heads": kv_heads, "head_dim": head_dim}

    return _read(config, answer=answer)


def always_128(config):
    return _read(config, head_dim=lambda *parts: (_head_dim(*parts), 128)[1])


def always_divided(config):
    def head_dim(config, heads, kv_heads, divide):
        return divide(_need(config, "hidden_size"), heads, kv_heads)

    return _read(config, head_dim=head_dim)


def given_for_gemma_only(config):
    def head_dim(config, heads, kv_heads, divide):
        seen = config if config["model_type"] == "gemma2" else {**config, "head_dim": None}
        return _head_dim(seen, heads, kv_heads, divide)

    return _read(config, head_dim=head_dim)


def larger_wins(config):
    def head_dim(config, heads, kv_heads, divide):
        given = config.get("head_dim")
        if given is None or "hidden_size" not in config:
            return _head_dim(config, heads, kv_heads, divide)
        return max(given, config["hidden_size"] // heads)

    return _read(config, head_dim=head_dim)


def null_head_dim(config):
    def head_dim(config, heads, kv_heads, divide):
        return config["head_dim"] if "head_dim" in config else _head_dim(config, heads, kv_heads, divide)

    return _read(config, head_dim=head_dim)


def must_divide_anyway(config):
    def head_dim(config, heads, kv_heads, divide):
        if config.get("hidden_size", heads) % heads:
            raise ValueError("heads do not divide hidden_size")
        return _head_dim(config, heads, kv_heads, divide)

    return _read(config, head_dim=head_dim)


def must_agree(config):
    def head_dim(config, heads, kv_heads, divide):
        found = _head_dim(config, heads, kv_heads, divide)
        if "hidden_size" in config and found * heads != config["hidden_size"]:
            raise ValueError("head_dim and hidden_size disagree")
        return found

    return _read(config, head_dim=head_dim)


def hidden_size_always_needed(config):
    def head_dim(config, heads, kv_heads, divide):
        _need(config, "hidden_size")
        return _head_dim(config, heads, kv_heads, divide)

    return _read(config, head_dim=head_dim)


def missing_means_one(config):
    def kv(config, heads):
        return 1 if config.get("num_key_value_heads") is None else _kv_heads(config, heads)

    return _read(config, kv=kv)


def missing_means_eight(config):
    def kv(config, heads):
        return 8 if config.get("num_key_value_heads") is None else _kv_heads(config, heads)

    return _read(config, kv=kv)


def missing_refused(config):
    return _read(
        config, kv=lambda config, heads: _kv_heads(config, heads) if _need(config, "num_key_value_heads") else 0
    )


def null_passed_on(config):
    def kv(config, heads):
        return _kv_heads(config, heads) if config.get("num_key_value_heads", heads) is not None else None

    return _read(config, kv=kv)


def gpt2_unknown(config):
    return _read(config, type_of=lambda config: _type(config) if _type(config) in KNOWN else None)


def gpt2_with_new_names(config):
    def old(config, need, divide):
        heads = config["num_attention_heads"]
        return _answer(config["num_hidden_layers"], heads, divide(config["hidden_size"], heads, heads))

    return _read(config, old=old)


def gpt2_shares_one(config):
    return _read(config, old=lambda *parts: {**_gpt2(*parts), "num_kv_heads": 1})


def gpt2_width(config):
    return _read(config, old=lambda *parts: {**_gpt2(*parts), "head_dim": config["n_embd"]})


def gpt2_always_64(config):
    return _read(config, old=lambda *parts: {**_gpt2(*parts), "head_dim": 64})


def guessed(config):
    def type_of(config):
        known = _type(config) in (*KNOWN, "gpt2") or "model_type" not in config
        return _type(config) if known else "llama"

    return _read(config, type_of=type_of)


def known_by_its_fields(config):
    return _read(config, type_of=lambda config: "gpt2" if "n_layer" in config or "n_head" in config else "llama")


def known_by_its_start(config):
    def type_of(config):
        return next((name for name in (*KNOWN, "gpt2") if str(_type(config)).startswith(name)), None)

    return _read(config, type_of=type_of)


def llama_without_a_type(config):
    return _read(config, type_of=lambda config: config.get("model_type", "llama"))


def key_error_without_a_type(config):
    return _read(config, type_of=lambda config: config["model_type"])


def zero_is_missing(config):
    return _read(
        config, kv=lambda config, heads: _kv_heads(config, heads) if config.get("num_key_value_heads") else heads
    )


def zero_passed_on(config):
    return _read(config, kv=lambda c, heads: 0 if c.get("num_key_value_heads") == 0 else _kv_heads(c, heads))


def zero_divides(config):
    def kv(config, heads):
        kv_heads = config.get("num_key_value_heads")
        if kv_heads is None:
            return heads
        if heads % kv_heads or kv_heads < 1:
            raise ValueError("KV heads")
        return kv_heads

    return _read(config, kv=kv)


def negative_accepted(config):
    def kv(config, heads):
        kv_heads = config.get("num_key_value_heads")
        return kv_heads if kv_heads is not None and kv_heads < 0 else _kv_heads(config, heads)

    return _read(config, kv=kv)


def any_kv_heads(config):
    def kv(config, heads):
        kv_heads = config.get("num_key_value_heads")
        return kv_heads if kv_heads is not None and kv_heads > 0 else _kv_heads(config, heads)

    return _read(config, kv=kv)


def more_kv_heads(config):
    def kv(config, heads):
        kv_heads = config.get("num_key_value_heads")
        return kv_heads if kv_heads is not None and kv_heads > heads else _kv_heads(config, heads)

    return _read(config, kv=kv)


def rounded_down(config):
    return _read(config, divide=lambda hidden, heads, kv_heads: hidden // heads)


def not_whole(config):
    return _read(config, divide=lambda hidden, heads, kv_heads: hidden / heads)


def gpt2_rounded_down(config):
    def old(config, need, divide):
        return _gpt2(config, need, lambda hidden, heads, kv_heads: hidden // heads)

    return _read(config, old=old)


def key_error(config):
    def head_dim(config, heads, kv_heads, divide):
        return divide(config["hidden_size"], heads, kv_heads) if config.get("head_dim") is None else config["head_dim"]

    return _read(config, need=lambda config, name: config[name], head_dim=head_dim)


def none_for_missing(config):
    def need(config, name):
        return config.get(name) if name in ("num_hidden_layers", "n_layer") else _need(config, name)

    return _read(config, need=need)


def field_taken_out(config):
    def head_dim(config, heads, kv_heads, divide):
        found = _head_dim(config, heads, kv_heads, divide)
        config.pop("head_dim", None)
        return found

    return _read(config, head_dim=head_dim)


def type_taken_out(config):
    return _read(config, type_of=lambda config: config.pop("model_type", None))


def kv_heads_filled_in(config):
    def kv(config, heads):
        found = _kv_heads(config, heads)
        config["num_key_value_heads"] = found
        return found

    return _read(config, kv=kv)


def head_dim_filled_in(config):
    def head_dim(config, heads, kv_heads, divide):
        config["head_dim"] = _head_dim(config, heads, kv_heads, divide)
        return config["head_dim"]

    return _read(config, head_dim=head_dim)


def answer_written_into_it(config):
    config.update(_read(config))
    return config


def gpt2_renamed_in_place(config):
    def old(config, need, divide):
        found = _gpt2(config, need, divide)
        for name, new in (("n_layer", "num_hidden_layers"), ("n_head", "num_attention_heads")):
            config[new] = config.pop(name)
        return found

    return _read(config, old=old)


P, D, K, G, N, L = "plain", "head_dim given", "KV heads left out", "gpt2", "no guessing", "left alone"

MISTAKES = (
    Mistake(
        "query-heads",
        query_heads,
        "You answer the query heads. The cache holds KV heads: num_key_value_heads, where it is given.",
        killed_by=P,
    ),
    Mistake(
        "divided-by-kv-heads",
        divided_by_kv_heads,
        "You divide hidden_size by the KV heads. All query heads together are as wide as the model: divide by those.",
        killed_by=P,
    ),
    Mistake(
        "hidden-size-as-head-dim",
        hidden_for_head_dim,
        "You answer hidden_size, the width of the whole model. One head has a share of it: divide by the query heads.",
        killed_by=P,
    ),
    Mistake(
        "group-size",
        group_size,
        "You answer how many query heads share a KV head. The number of KV heads is asked.",
        killed_by=P,
    ),
    Mistake(
        "layers-and-heads-swapped",
        layers_and_heads_swapped,
        "num_layers and num_kv_heads have changed places.",
        killed_by=P,
    ),
    Mistake(
        "only-llama",
        only_llama,
        "You know llama only. mistral, qwen2 and gemma2 have fields of the same names.",
        killed_by=P,
    ),
    Mistake(
        "no-dict",
        three_values,
        "You return the values alone. Return a dict with num_layers, num_kv_heads and head_dim.",
        killed_by=P,
    ),
    Mistake(
        "names-of-the-config",
        names_of_the_config,
        "Your dict has the names of the config. The answer's are num_layers, num_kv_heads and head_dim.",
        killed_by=P,
    ),
    Mistake(
        "always-128",
        always_128,
        "You answer 128 for every head dim. Many models have it; read what this one has.",
        killed_by=P,
    ),
    Mistake(
        "head-dim-always-divided",
        always_divided,
        "You always divide hidden_size. Where the config gives head_dim, that one counts.",
        killed_by=D,
    ),
    Mistake(
        "head-dim-of-gemma-only",
        given_for_gemma_only,
        "You look at head_dim for gemma2 only. It counts for every type with Llama's names.",
        killed_by=D,
    ),
    Mistake(
        "larger-head-dim",
        larger_wins,
        "You take the larger of head_dim and hidden_size // num_attention_heads. Where head_dim is given, it counts.",
        killed_by=D,
    ),
    Mistake(
        "null-head-dim-passed-on",
        null_head_dim,
        "A head_dim that is null comes back as None. It means the same as a missing one: divide.",
        killed_by=D,
    ),
    Mistake(
        "must-divide-anyway",
        must_divide_anyway,
        "You refuse heads that do not divide hidden_size though head_dim is given. Then nothing has to be divided.",
        killed_by=D,
    ),
    Mistake(
        "must-agree",
        must_agree,
        "You refuse a head_dim that is not hidden_size // num_attention_heads. It need not be: Gemma-2-27B has 128, not 144.",
        killed_by=D,
    ),
    Mistake(
        "hidden-size-always-needed",
        hidden_size_always_needed,
        "You want hidden_size though head_dim is given. It is needed only where head_dim must be worked out.",
        killed_by=D,
    ),
    Mistake(
        "missing-means-one",
        missing_means_one,
        "You take missing KV heads for one. In these types it means as many as query heads.",
        killed_by=K,
    ),
    Mistake(
        "missing-means-eight",
        missing_means_eight,
        "You take missing KV heads for eight. In these types it means as many as query heads.",
        killed_by=K,
    ),
    Mistake(
        "missing-refused",
        missing_refused,
        "You refuse a config without num_key_value_heads. In these types it means as many as query heads.",
        killed_by=K,
    ),
    Mistake(
        "null-kv-heads-passed-on",
        null_passed_on,
        "num_key_value_heads that are null come back as None: get(name, default) has no default for null. Ask `is None`.",
        killed_by=K,
    ),
    Mistake(
        "gpt2-unknown",
        gpt2_unknown,
        "You refuse a gpt2. It is one of the five types, with names of its own: n_layer, n_head, n_embd.",
        killed_by=G,
    ),
    Mistake(
        "gpt2-with-new-names",
        gpt2_with_new_names,
        "You look for Llama's names in a gpt2. There they are n_layer, n_head and n_embd.",
        killed_by=G,
    ),
    Mistake(
        "gpt2-shares-one",
        gpt2_shares_one,
        "You give a gpt2 one KV head. It has one for each query head.",
        killed_by=G,
    ),
    Mistake(
        "gpt2-width-as-head-dim",
        gpt2_width,
        "You answer n_embd, the width of the whole model, as head dim. Divide it by n_head.",
        killed_by=G,
    ),
    Mistake(
        "gpt2-always-64",
        gpt2_always_64,
        "You answer 64 for every gpt2. The published ones have it; work it out from n_embd and n_head.",
        killed_by=G,
    ),
    Mistake(
        "type-guessed",
        guessed,
        "You read an unknown type as if it were llama. DeepSeek-V2 has the same fields and a different cache: refuse.",
        killed_by=N,
    ),
    Mistake(
        "known-by-its-fields",
        known_by_its_fields,
        "You go by the fields, not by model_type. gpt_bigcode has gpt2's fields and another cache: refuse it.",
        killed_by=N,
    ),
    Mistake(
        "known-by-its-start",
        known_by_its_start,
        "You take a type that begins like a known one for it. llama4_text is no llama: compare the whole name.",
        killed_by=N,
    ),
    Mistake(
        "llama-without-a-type",
        llama_without_a_type,
        "A config without model_type is read as llama. Nobody knows what it is: refuse it.",
        killed_by=N,
    ),
    Mistake(
        "key-error-without-a-type",
        key_error_without_a_type,
        "A config without model_type ends in a KeyError. Raise ValueError.",
        killed_by=N,
    ),
    Mistake(
        "zero-read-as-missing",
        zero_is_missing,
        "You take 0 KV heads for missing ones, as `or` does. 0 is given, and wrong: refuse it. Ask `is None`.",
        killed_by=N,
    ),
    Mistake(
        "zero-passed-on",
        zero_passed_on,
        "You accept 0 KV heads: a cache of no bytes. Refuse whatever is less than 1.",
        killed_by=N,
    ),
    Mistake(
        "division-by-zero",
        zero_divides,
        "0 KV heads end in a ZeroDivisionError. Look whether it is at least 1 before you divide by it.",
        killed_by=N,
    ),
    Mistake(
        "negative-accepted",
        negative_accepted,
        "You accept a negative number of KV heads, and it may even divide the heads. Refuse whatever is less than 1.",
        killed_by=N,
    ),
    Mistake(
        "any-kv-heads",
        any_kv_heads,
        "You accept KV heads that do not divide the query heads. Each is shared by as many as the next one: refuse.",
        killed_by=N,
    ),
    Mistake(
        "more-kv-heads-than-heads",
        more_kv_heads,
        "You accept more KV heads than query heads. Nobody would read the others: refuse.",
        killed_by=N,
    ),
    Mistake(
        "head-dim-rounded-down",
        rounded_down,
        "Heads that do not divide hidden_size give a head dim that was rounded down. Refuse them.",
        killed_by=N,
    ),
    Mistake(
        "head-dim-not-whole",
        not_whole,
        "Heads that do not divide hidden_size give a head dim with a fraction. Refuse them, and divide with //.",
        killed_by=N,
    ),
    Mistake(
        "gpt2-rounded-down",
        gpt2_rounded_down,
        "In a gpt2, heads that do not divide n_embd give a head dim that was rounded down. Refuse them too.",
        killed_by=N,
    ),
    Mistake(
        "key-error",
        key_error,
        "A missing field ends in a KeyError. Raise ValueError, and name the field.",
        killed_by=N,
    ),
    Mistake(
        "none-for-missing-layers",
        none_for_missing,
        "Without its number of layers, a config gives None. Raise ValueError, and name the field.",
        killed_by=N,
    ),
    Mistake(
        "head-dim-taken-out",
        field_taken_out,
        "You take head_dim out of the caller's config. Read it with get, not with pop.",
        killed_by=L,
    ),
    Mistake(
        "type-taken-out",
        type_taken_out,
        "You take model_type out of the caller's config. Read it with get, not with pop.",
        killed_by=L,
    ),
    Mistake(
        "kv-heads-filled-in",
        kv_heads_filled_in,
        "You write num_key_value_heads into the caller's config. Keep it in a variable.",
        killed_by=L,
    ),
    Mistake(
        "head-dim-filled-in",
        head_dim_filled_in,
        "You write head_dim into the caller's config. Keep it in a variable.",
        killed_by=L,
    ),
    Mistake(
        "answer-written-into-it",
        answer_written_into_it,
        "You write the answer into the caller's config and return that. Make a new dict.",
        killed_by=L,
    ),
    Mistake(
        "gpt2-renamed-in-place",
        gpt2_renamed_in_place,
        "You rename the fields of the caller's gpt2 config. Make a new dict, or use variables.",
        killed_by=L,
    ),
)


def with_a_table(config):
    names = {model_type: ("num_hidden_layers", "num_attention_heads", "hidden_size") for model_type in KNOWN}
    names["gpt2"] = ("n_layer", "n_head", "n_embd")
    try:
        layers, heads, width = names[config["model_type"]]
        found = {"num_layers": config[layers], "num_kv_heads": config[heads]}
        if config["model_type"] != "gpt2" and config.get("num_key_value_heads") is not None:
            found["num_kv_heads"] = config["num_key_value_heads"]
        if found["num_kv_heads"] <= 0 or config[heads] % found["num_kv_heads"] != 0:
            raise ValueError("KV heads")
        found["head_dim"] = config.get("head_dim")
        if found["head_dim"] is None:
            found["head_dim"], rest = divmod(config[width], config[heads])
            if rest:
                raise ValueError("heads")
    except KeyError as error:
        raise ValueError(f"missing or unknown: {error}") from None
    return found


def on_a_copy(config):
    config = dict(config)
    if config.get("model_type") == "gpt2":
        for new, name in (
            ("num_hidden_layers", "n_layer"),
            ("num_attention_heads", "n_head"),
            ("hidden_size", "n_embd"),
        ):
            if name in config:
                config[new] = config.pop(name)
        config["model_type"] = "llama"
    return _read(config)


def more_than_asked(config):
    found = _read(config)
    return {"model_type": config["model_type"], **found, "elements": 2 * found["num_layers"] * found["head_dim"]}


class Unreadable(ValueError):
    pass


def with_asserts(config):
    try:
        if config["model_type"] == "gpt2":
            layers, heads, width = (config[name] for name in ("n_layer", "n_head", "n_embd"))
            kv_heads = heads
        else:
            assert config["model_type"] in KNOWN
            layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
            kv_heads, width = config.get("num_key_value_heads"), config.get("hidden_size")
            kv_heads = heads if kv_heads is None else kv_heads
        head_dim = config.get("head_dim")
        if head_dim is None:
            assert width is not None and width % heads == 0
            head_dim = width // heads
        assert kv_heads > 0 and kv_heads * (heads // kv_heads) == heads
    except (AssertionError, KeyError) as error:
        raise Unreadable(f"cannot be read: {error}") from error
    return dict(num_layers=layers, num_kv_heads=kv_heads, head_dim=head_dim)


def whole_floats(config):
    return {name: float(value) for name, value in _read(config).items()}


VARIANTS = (
    Variant("a table of names", with_a_table),
    Variant("renamed in a copy", on_a_copy),
    Variant("more keys than asked", more_than_asked),
    Variant("asserts, and an error class of its own", with_asserts),
    Variant("whole floats", whole_floats),
)


def kv_heads_unchecked_with_head_dim(config):
    if config.get("head_dim") is None:
        return _read(config)
    kv_heads = config.get("num_key_value_heads")
    return _read({**config, "num_key_value_heads": None}) | ({} if kv_heads is None else {"num_kv_heads": kv_heads})


def no_multi_query(config):
    found = _read(config)
    if found["num_kv_heads"] <= 1:
        raise ValueError("1 KV head")
    return found


def part_of_a_type(config):
    kind = config.get("model_type")
    if kind is None or kind not in "llama mistral qwen2 gemma2 gpt2":
        raise ValueError(f"model_type {kind!r}")
    return _read({**config, "model_type": "gpt2" if kind in "gpt2" else "llama"})


def either_name(config):
    if config.get("model_type") not in (*KNOWN, "gpt2"):
        raise ValueError("model_type")
    names = {"n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_embd": "hidden_size"}
    return _read({"model_type": "llama"} | {names.get(name, name): config[name] for name in config if name[0] != "m"})


def kv_heads_needed_by_new_families(config):
    if config.get("model_type") in ("qwen2", "gemma2"):
        _need({name: value for name, value in config.items() if value is not None}, "num_key_value_heads")
    return _read(config)


MISTAKES += (
    Mistake(
        "kv-heads-unchecked-with-head-dim",
        kv_heads_unchecked_with_head_dim,
        "Where head_dim is given, the KV heads are not checked. Check them always.",
        "no guessing",
    ),
    Mistake("no-multi-query", no_multi_query, "One KV head is refused. Only fewer than 1 is wrong.", "plain"),
    Mistake(
        "part-of-a-type",
        part_of_a_type,
        'You look for model_type in one text, and "gemma" is a part of "gemma2". Use a tuple or a set.',
        "no guessing",
    ),
    Mistake(
        "either-name",
        either_name,
        "You take GPT-2's names in a config of another family. There the needed field is missing: refuse.",
        "no guessing",
    ),
    Mistake(
        "kv-heads-needed-by-new-families",
        kv_heads_needed_by_new_families,
        "qwen2 and gemma2 without num_key_value_heads are refused. Missing means as many as query heads, for all four.",
        "KV heads left out",
    ),
)
