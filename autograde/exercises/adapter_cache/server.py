"""A server with adapters that stays in the trusted process: it counts, and it answers whatever it is asked.

Each uploaded set of weights is a *state*. A KV notes for every token which state computed it. Logits of a KV that
another state made are numbers like any others, and wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograde.subject import Trusted

VOCAB = 5  # logits of one token
LONGEST = 200  # tokens of one KV
MOST = 400  # KVs of one server
LARGEST = 200_000  # tokens are below it


class LentServer:
    """The model and its adapters. KVs are numbered from 0 on."""

    def __init__(self, rng: np.random.Generator, adapters: tuple[str, ...]) -> None:
        self.rng = rng
        self.rows = rng.normal(size=(2, 1009, VOCAB))  # of the two digits of a token to the base 1009
        self.gains: list[np.ndarray] = []  # of each state
        self.uploads = dict.fromkeys(("", *adapters), 0)
        self.labels = dict.fromkeys(self.uploads, "v1")
        self.states = {adapter: self._state() for adapter in self.uploads}
        self.kvs: list[tuple[list[int], list[int]]] = []  # tokens and states of each KV
        # Of the newest answer:
        self.computed: list[tuple[str, int]] = []  # adapter and number of tokens of each call
        self.asked: set[str] = set()  # adapters whose version was asked for

    def _state(self) -> int:
        self.gains.append(self.rng.uniform(0.5, 2.0, size=VOCAB) * self.rng.choice([-1.0, 1.0], size=VOCAB))
        return len(self.gains) - 1

    def upload(self, adapter: str, label: str = "") -> None:
        """Other weights under the same name. `label`: what their version is called, if not as the usual ones."""
        self.uploads[adapter] += 1
        self.labels[adapter] = label or f"v{self.uploads[adapter] + 1}"
        self.states[adapter] = self._state()

    def version(self, adapter: str) -> str:
        """As "v1", counted for each name by itself, or as it was called."""
        self.asked.add(self._known(adapter))
        return self.label(adapter)

    def label(self, adapter: str) -> str:
        """The version of a name that is known."""
        return self.labels[adapter]

    def compute(self, adapter: str, tokens: Any, after: Any) -> int:
        """The KV of these tokens behind those of `after`, an earlier KV or None."""
        state, new = self.states[self._known(adapter)], _tokens(tokens)
        before, states = ([], []) if after is None else self.kvs[self._number(after)]
        if len(before) + len(new) > LONGEST or len(self.kvs) >= MOST:
            raise ValueError(f"more than {LONGEST} tokens in a KV, or more than {MOST} KVs")
        self.kvs.append((before + new, states + [state] * len(new)))
        self.computed.append((adapter, len(new)))
        return len(self.kvs) - 1

    def logits(self, adapter: str, kv: Any) -> np.ndarray:
        """(VOCAB,) of the token that follows. Nobody asks who made the KV."""
        return self.mixed(self.states[self._known(adapter)], *self.kvs[self._number(kv)])

    def right(self, adapter: str, tokens: list[int]) -> np.ndarray:
        """(VOCAB,) as they are when this adapter computes all tokens now."""
        state = self.states[adapter]
        return self.mixed(state, tokens, [state] * len(tokens))

    def mixed(self, state: int, tokens: list[int], states: list[int]) -> np.ndarray:
        """The later a token came the more it counts; who computed it counts too."""
        total = np.zeros(VOCAB)
        for i, (token, of) in enumerate(zip(tokens, states, strict=True)):
            total += (0.8 ** (len(tokens) - i) + 0.1 / (i + 1)) * self.gains[of] * self._row(token)
        return total * self.gains[state]

    def _row(self, token: int) -> np.ndarray:
        return self.rows[0, token % 1009] + self.rows[1, token // 1009]

    def lent(self) -> Trusted:
        """This server, as the learner's side sees it."""
        return Trusted(self, ("version", "compute", "logits"), name="Server")

    def _known(self, adapter: Any) -> str:
        if not isinstance(adapter, str) or adapter not in self.uploads:
            raise ValueError(f"no adapter {str(adapter)[:30]!r}: there are {sorted(self.uploads)}")
        return adapter

    def _number(self, kv: Any) -> int:
        if type(kv) is not int or not 0 <= kv < len(self.kvs):
            raise ValueError(f"no KV {str(kv)[:30]}: there are {len(self.kvs)}")
        return kv


def _tokens(tokens: Any) -> list[int]:
    tokens = tokens.tolist() if isinstance(tokens, np.ndarray) else tokens
    if not isinstance(tokens, list) or not tokens:
        raise ValueError(f"compute takes a list of at least 1 token, got {str(tokens)[:30]}")
    if not all(type(token) is int and 0 <= token < LARGEST for token in tokens):
        raise ValueError(f"tokens are whole numbers, 0 to {LARGEST - 1}, got {str(tokens)[:60]}")
    return tokens
