"""Exercise 8.2: attention over latents, with the matrices on the query's side and behind the mixture."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autograde.exercise import Exercise, stage
from autograde.exercises.absorbed_attend.candidates import MISTAKES, VARIANTS
from autograde.exercises.mla_cases import Dims, ask, callers_tensors, measure, never_made, other_sizes, random_case
from autograde.finding import Finding
from autograde.lazy import Later
from autograde.subject import Subject

# H * Dv is well above R + Dr: what heads share is small against what they need.
MANY = Dims(H=6, Dn=11, Dr=4, Dv=7, R=13)
FEW = Dims(H=5, Dn=9, Dr=2, Dv=12, R=8)


@stage("one new token", why="The same numbers as with keys and values: the matrices only change places.")
def one_new_token(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    other = Dims(H=5, Dn=3, Dr=8, Dv=2, R=7)
    cases = [("a single token", random_case(rng, 1, 1)), ("the newest of 11", random_case(rng, 1, 11))]
    yield from ask(subject, [*cases, ("the newest of 6, other sizes", random_case(rng, 1, 6, other, B=3))])


@stage("several new tokens", why="A chunk too: query t stands at S - T + t, and sees nothing that comes later.")
def several_new_tokens(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    other = Dims(H=2, Dn=11, Dr=6, Dv=3, R=8)
    cases = [("a prompt", random_case(rng, 7, 7)), ("a chunk", random_case(rng, 3, 11))]
    yield from ask(subject, [*cases, ("a chunk, other sizes", random_case(rng, 6, 8, other))])


@stage("nothing for each head", weight=4, why="Every key made for every token and head costs what the latent saves.")
def nothing_for_each_head(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    cases = [("the newest of 131", random_case(rng, 1, 131, MANY))]
    cases += [("the newest of 61, other sizes", random_case(rng, 1, 61, FEW, B=3))]
    yield from measure(subject, [*cases, ("two new of 131", random_case(rng, 2, 131, MANY))])


@stage("made in pieces", weight=2, why="One head's keys at a time are small tensors, and as much work as all at once.")
def made_in_pieces(subject: Subject, rng: np.random.Generator) -> Iterable[Finding]:
    for T in (1, 2):
        yield from never_made(subject, rng, T, 11)


EXERCISE = Exercise(
    id="8.2",
    name="absorbed_attend",
    title="Attention on the latents themselves",
    goal="Give what `explicit_attend` gives, and make no key and no value of any head.",
    points=5,
    minutes=25,
    difficulty=4,
    hints=(
        "A score is `q . (W c)`. It is also `(W^T q) . c`: then the matrix meets one query, and not S latents. The "
        "output is a weighted sum of `W c`. Where can that matrix go, so that it meets one row only?",
        "`q_latent = q_nope @ w_uk` is (B, H, T, R): `torch.einsum('bhtr,bsr->bhts', q_latent, c_kv)` are the scores' "
        "first part, the second is the same with `q_pe` and `k_pe`. Mix `c_kv` with the weights, then apply w_uv. "
        "`@` with an axis to spread would copy the latents for each head; einsum does not.",
        "`scores = einsum('bhtr,bsr->bhts', q_latent, c_kv) + einsum('bhtd,bsd->bhts', q_pe, k_pe)`, times "
        "`(Dn + Dr) ** -0.5`; hide and softmax as in 8.1; `mixed = einsum('bhts,bsr->bhtr', weights, c_kv)`; return "
        "`einsum('bhtr,hdr->bhtd', mixed, w_uv)`.",
    ),
    stages=(one_new_token, several_new_tokens, nothing_for_each_head, other_sizes, made_in_pieces, callers_tensors),
    reference=Later("kvlib.mla", "absorbed_attend"),
    mistakes=MISTAKES,
    variants=VARIANTS,
    tensors=True,
)
