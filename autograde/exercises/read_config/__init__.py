"""Exercise 3.3: what a config.json says about a cache."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.compare import shown
from autograde.exercise import Exercise, stage
from autograde.exercises.read_config.candidates import MISTAKES, VARIANTS
from autograde.exercises.read_config.configs import Config, Want, gpt2, in_words, like_llama
from autograde.exercises.scalars import refused
from autograde.exercises.sizes import primes, whole
from autograde.finding import Finding, held
from autograde.subject import Subject
from kvlib.sizing.config import read_config

TYPES = ("llama", "mistral", "qwen2", "gemma2")


def _fields(subject: Subject, got: object, want: Want, config: Config) -> Iterable[Finding]:
    """Whether a dict came back, and in it the three numbers; what else it holds does not matter."""
    where, names = in_words(config), tuple(want)
    if not isinstance(got, dict) or not set(names) <= set(got):
        fact = f"a dict with {', '.join(names)} must come back"
        given = f"a dict with {', '.join(got) or 'nothing'}"[:80] if isinstance(got, dict) else shown(got)
        yield Finding(False, "a dict", fact, where=where, expected=str(want), got=given, events=len(subject.record))
        return
    for name in names:
        yield whole(subject, got[name], want[name], key=name, fact=f"{name} is right", call=where)


def _ask(subject: Subject, pair: tuple[Config, Want]) -> Iterable[Finding]:
    config, want = pair
    yield from _fields(subject, subject.run(config), want, config)


@stage("plain", why="Query heads do not enter the size of a cache: KV heads do, and there are fewer of them.")
def plain(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for model_type in TYPES:
        yield from _ask(subject, like_llama(model_type, *primes(rng, 4)))
    for kv_heads, group in ((1, 5), (5, 1), (1, 1)):  # one KV head for all, and one for each
        yield from _ask(subject, like_llama("llama", 3, kv_heads, group, 7))


@stage("head_dim given", why="Gemma-2-27B has heads of 128, where 4608 / 32 would give 144: 12% too many bytes.")
def head_dim_given(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layers, kv_heads, group, *pair = primes(rng, 5)
    other, dim = sorted(pair)
    heads = kv_heads * group
    yield from _ask(subject, like_llama("gemma2", layers, kv_heads, group, dim, heads * other, head_dim=dim))
    yield from _ask(subject, like_llama("gemma2", 46, 16, 2, 128, 4608, head_dim=128))  # Gemma-2-27B
    yield from _ask(subject, like_llama("mistral", layers, kv_heads, group, dim, heads * other, head_dim=dim))
    yield from _ask(subject, like_llama("qwen2", layers, kv_heads, group, dim, heads * other + 1, head_dim=dim))
    config, want = like_llama("llama", kv_heads, layers, group, dim, head_dim=dim)
    del config["hidden_size"]  # nobody needs it
    yield from _ask(subject, (config, want))
    for model_type in ("mistral", "llama", "qwen2", "gemma2"):
        yield from _ask(subject, like_llama(model_type, layers, kv_heads, group, dim, head_dim=None))


@stage("KV heads left out", why="The older of these models have a KV head for each query head, and do not say so.")
def kv_heads_left_out(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for model_type in TYPES:
        layers, heads, dim = primes(rng, 3)
        config, want = like_llama(model_type, layers, heads, 1, dim)
        del config["num_key_value_heads"]
        yield from _ask(subject, (config, want))
        yield from _ask(subject, ({**config, "num_key_value_heads": None}, want))


@stage("gpt2", why="An older family has other names for the same things.")
def old_names(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    yield from _ask(subject, gpt2(*primes(rng, 3)))
    yield from _ask(subject, gpt2(48, 25, 64))  # GPT-2 XL


@stage("no guessing", why="A wrong guess is a plan that is off by a factor of 8, and nothing tells.")
def no_guessing(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layers, kv_heads, group, dim = primes(rng, 4)
    config, want = like_llama("llama", layers, kv_heads, group, dim)
    old, old_want = gpt2(layers, kv_heads, dim)
    heads = kv_heads * group

    def without(name: str, whole_config: Config) -> Config:
        return {key: value for key, value in whole_config.items() if key != name}

    yield from _ask(subject, (config, want))
    yield from _ask(subject, (old, old_want))
    cases = [
        ({**old, "model_type": "gpt_bigcode"}, "model_type gpt_bigcode"),
        ({**config, "model_type": "deepseek_v2"}, "model_type deepseek_v2"),
        ({**config, "model_type": "llama4_text"}, "model_type llama4_text"),
        (without("model_type", config), "a config without model_type"),
        ({**config, "num_key_value_heads": 0}, "num_key_value_heads 0"),
        ({**config, "num_key_value_heads": -kv_heads}, f"num_key_value_heads {-kv_heads}"),
        ({**config, "num_key_value_heads": heads - 1}, f"num_key_value_heads {heads - 1} of {heads} heads"),
        ({**config, "num_key_value_heads": 2 * heads}, f"num_key_value_heads {2 * heads} of {heads} heads"),
        ({**config, "hidden_size": heads * dim + 1}, f"hidden_size {heads * dim + 1} for {heads} heads, no head_dim,"),
        ({**old, "n_embd": kv_heads * dim + 1}, f"n_embd {kv_heads * dim + 1} for {kv_heads} heads"),
    ]
    needed = [(config, name) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size")]
    needed += [(old, name) for name in ("n_layer", "n_head", "n_embd")]
    cases += [(without(name, whole_config), f"a config without {name}") for whole_config, name in needed]
    given = {**config, "head_dim": dim}
    cases += [
        ({**given, "num_key_value_heads": kv}, f"num_key_value_heads {kv} of {heads} heads, head_dim {dim},")
        for kv in (heads - 1, 2 * heads, 0, -kv_heads)
    ]
    cases += [(without("num_hidden_layers", given), "a config with head_dim, without num_hidden_layers")]
    cases += [
        ({**old, "model_type": "llama"}, "a llama config with the names of gpt2"),
        ({**without("num_hidden_layers", config), "n_layer": layers}, "a llama config with n_layer"),
    ]
    cases += [({**config, "model_type": kind}, f"model_type {kind}") for kind in ("gemma", "qwen", "Llama", None)]
    cases += [({**old, "model_type": kind}, f"model_type {kind}") for kind in ("gpt", "gpt2-xl")]
    for number, (bad, what) in enumerate(cases):
        yield refused(subject, bad, key=f"case {number}", what=what)
    yield from _ask(subject, (config, want))


@stage("left alone", why="Whoever passed the config goes on with it: a field less, and the model cannot be loaded.")
def left_alone(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    layers, kv_heads, group, dim = primes(rng, 4)
    many, want_many = like_llama("mistral", layers, kv_heads, 1, dim)
    del many["num_key_value_heads"]
    given = like_llama("gemma2", layers, kv_heads, group, dim, head_dim=dim)
    for config, want in (like_llama("llama", layers, kv_heads, group, dim), (many, want_many), given, gpt2(7, 5, 3)):
        # Only the learner's side has dicts that can be looked at afterwards: a copy of an answer becomes the config.
        answer = subject.new(config)
        yield from _fields(subject, subject.read(answer), want, config)
        theirs = subject.call(answer, "copy", keep=True)
        subject.call(theirs, "clear")
        subject.call(theirs, "update", config)
        yield from _fields(subject, subject.run(theirs), want, config)
        yield _same(subject, subject.read(theirs), config)


def _same(subject: Subject, after: object, before: Config) -> Finding:
    fact, seen = "the config is as it was", after if isinstance(after, dict) else {}

    def told(config: dict, name: str) -> str:
        return f"{name}: {config[name]!r}" if name in config else f"no {name}"

    changed = [name for name in {**before, **seen} if told(seen, name) != told(before, name)]
    if not changed:
        return held("unchanged", fact)
    wanted, got = (", ".join(told(config, name) for name in changed)[:80] for config in (before, seen))
    fact, where = f"does not hold: {fact}", in_words(before)
    return Finding(False, "unchanged", fact, where=where, expected=wanted, got=got, events=len(subject.record))


EXERCISE = Exercise(
    id="3.3",
    name="read_config",
    title="What a config says, and what it does not",
    goal="Find layers, KV heads and head dim in a `config.json`, and refuse to guess.",
    points=4,
    minutes=20,
    difficulty=3,
    hints=(
        "Look at the `model_type` first: it says which names the fields have. What it does not name, refuse at once.",
        "`config.get(name)` is `None` both for a field that is missing and for one that is null: ask `is None`. "
        "With `or`, a 0 would pass for missing as well.",
        "For the four newer types: `kv = config.get('num_key_value_heads')`, and if it `is None`, the number of query "
        "heads; refuse `kv < 1 or heads % kv`. Then `head_dim`: if it `is None`, look up `hidden_size`, refuse "
        "`hidden_size % heads`, and divide. For every needed field, test `name in config` and raise `ValueError`.",
    ),
    stages=(plain, head_dim_given, kv_heads_left_out, old_names, no_guessing, left_alone),
    reference=read_config,
    mistakes=MISTAKES,
    variants=VARIANTS,
)
