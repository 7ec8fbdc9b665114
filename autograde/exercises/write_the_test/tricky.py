"""Wrong decoders that a weak test lets through. They are only ever seen through proxies."""

from __future__ import annotations

import numpy as np

from autograde.exercises.cached_decoder.candidates import Base


class RaisedLogit(Base):
    """The lowest logit is moved half-way up to the best: the best token never changes."""

    def step(self, token):
        logits = np.array(super().step(token))
        logits[logits.argmin()] = (logits.min() + logits.max()) / 2
        return logits


class LoweredLogits(Base):
    """All logits but the best are too small: the best token never changes."""

    def step(self, token):
        logits = np.array(super().step(token))
        return np.where(logits == logits.max(), logits, logits - 0.3)


class RolledLogits(Base):
    """Every logit stands in its neighbour's place: their sum, mean and maximum are right."""

    def step(self, token):
        return np.roll(super().step(token), 1)


class NaNLogits(Base):
    """Every logit but the first token's is NaN: no comparison with NaN is ever true, `error > tolerance` included."""

    def step(self, token):
        logits = np.array(super().step(token))
        return logits if len(self) == 1 else np.full_like(logits, np.nan)


class WrongOnce(Base):
    """One position in the middle is wrong; the cache itself is right."""

    def step(self, token):
        logits = np.array(super().step(token))
        return logits + 0.2 if len(self) == 2 else logits


class EqualTokens(Base):
    """A key is not kept when the token equals the one before: right as long as no token comes twice in a row."""

    before = None

    def step(self, token):
        logits = super().step(token)
        again, self.before = token == self.before, token
        if again:
            for rows in (*self.keys, *self.values):
                rows.pop()
        return logits

    def reset(self):
        super().reset()
        self.before = None


class WrongAtTheEnd(Base):
    """The last position before the cache is full is embedded one too early."""

    def position(self, token):
        return self.held - (self.held == self.max_len - 1)


class WrongAfterRefusal(Base):
    """The length is as it was after a refused token, but the newest row of every cache is gone."""

    def refuse(self, token):
        try:
            super().refuse(token)
        except ValueError:
            for rows in (*self.keys, *self.values):
                rows[-1:] = rows[-2:-1]
            raise


class WrongLogit(Base):
    """One logit, always the same one, is wrong by a hundredth."""

    wrong = 0

    @classmethod
    def of(cls, wrong):
        """A decoder whose logit number `wrong` is off."""
        return type("WrongLogit", (cls,), {"wrong": wrong})

    def step(self, token):
        logits = np.array(super().step(token))
        logits[self.wrong] += 0.01 if len(self) % 2 else -0.01
        return logits


class DropsZero(Base):
    """`if token:` where `if token is not None:` is meant: token 0 counts but is not stored."""

    def step(self, token):
        logits = super().step(token)
        if not token:
            for rows in (*self.keys, *self.values):
                rows.pop()
        return logits


class CountsBadTokens(Base):
    """A refused bad token is counted."""

    def refuse_token(self, token):
        try:
            super().refuse_token(token)
        except ValueError:
            self.held += 1
            raise


class TypeErrorWhenFull(Base):
    """Falls over an empty slot instead of refusing."""

    def refuse(self, token):
        self.refuse_token(token)
        if self.held >= self.max_len:
            raise TypeError("'NoneType' object does not support item assignment")


class NoLimitAfterReset(Base):
    """The limit is lost in reset(): then the position table's IndexError, or nothing, is all there is."""

    def reset(self):
        super().reset()
        self.max_len = 10**6

    def position(self, token):
        return min(self.held, self.model.max_len - 1)
