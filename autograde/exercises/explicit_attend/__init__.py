"""Exercise 8.1: attention whose keys and values are made from one latent for each token."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.explicit_attend.candidates import MISTAKES, VARIANTS
from autograde.exercises.mla_cases import Dims, ask, callers_tensors, other_sizes, random_case
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject


@stage("one token", why="A single token gets all the weight: what comes out is its value, made for each head.")
def one_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    sizes = (("a single token", Dims()), ("two heads", Dims(H=2, Dn=7, Dr=2, Dv=5, R=11)))
    yield from ask(subject, [(what, random_case(rng, 1, 1, dims)) for what, dims in sizes])


@stage("one new token", why="A key has two parts: one that its head makes of the latent, one that all heads share.")
def one_new_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    case = random_case(rng, 1, 11)
    other = random_case(rng, 1, 6, Dims(H=5, Dn=3, Dr=8, Dv=2, R=7), B=3)
    yield from ask(subject, [("the newest of 11", case), ("the newest of 6, other sizes", other)])


@stage("several new tokens", why="The T queries are the newest tokens: each sees what was before it, and itself.")
def several_new_tokens(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    other = Dims(H=2, Dn=11, Dr=6, Dv=3, R=8)
    cases = [("a prompt", random_case(rng, 7, 7)), ("a chunk", random_case(rng, 3, 11))]
    cases.append(("a chunk, other sizes", random_case(rng, 6, 8, other)))
    yield from ask(subject, cases)


EXERCISE = Exercise(
    id="8.1",
    name="explicit_attend",
    title="Keys and values from a latent",
    goal="Make every head's keys and values from the latents, and attend over them.",
    points=3,
    minutes=20,
    difficulty=3,
    hints=(
        "Three steps: `k_nope` (B, H, S, Dn) and `v` (B, H, S, Dv) from `c_kv`; keys `cat(k_nope, k_pe)`, queries "
        "`cat(q_nope, q_pe)`; then attention as you know it. What is missing in `k_pe` before it can be joined on?",
        "`k_nope = c_kv[:, None] @ w_uk.transpose(1, 2)`: the first factor is (B, 1, S, R), the second (H, R, Dn). "
        "`k_pe[:, None].expand(-1, H, -1, -1)` gives each head the same rotary part. The scale counts the whole width "
        "of a key, Dn + Dr.",
        "`q, k = torch.cat((q_nope, q_pe), -1), torch.cat((k_nope, shared), -1)`, `scores = q @ k.transpose(-1, -2) / "
        "q.shape[-1] ** 0.5`, `seen = torch.arange(S) <= torch.arange(S - T, S)[:, None]`, and "
        "`scores.masked_fill(~seen, float('-inf')).softmax(-1) @ v`.",
    ),
    stages=(one_token, one_new_token, several_new_tokens, other_sizes, callers_tensors),
    reference=Later("kvlib.mla", "explicit_attend"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
