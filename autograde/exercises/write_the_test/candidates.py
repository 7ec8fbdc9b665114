"""Weak and sound ways to test a decoder."""

from __future__ import annotations

import numpy as np

from autograde.exercise import Mistake, Variant


def close(got, want, tolerance=1e-4):
    got = np.asarray(got, dtype=float)
    return got.size == want.size and bool(np.all(np.abs(got.reshape(want.shape) - want) < tolerance))


def argmax_equal(got, want):
    return int(np.argmax(got)) == int(np.argmax(want))


def exactly(got, want):
    return bool(np.array_equal(np.asarray(got).reshape(want.shape), want))


def signed(got, want):
    return bool((np.asarray(got).reshape(want.shape) - want).max() < 1e-4)


def nan_passes(got, want):
    return not np.any(np.abs(np.asarray(got).reshape(want.shape) - want) > 1e-4)


def same_sum(got, want):
    return abs(float(np.sum(got)) - float(want.sum())) < 1e-3


class Tester:
    """A sound test in parts; each weak test below leaves out or changes one of them."""

    same = staticmethod(close)
    repeats, fills, bad, overflow, lengths, after, second, again = True, True, True, True, True, True, True, True
    positions = slice(None)

    def __init__(self, make_decoder, recompute, vocab_size, max_len):
        self.make_decoder, self.recompute = make_decoder, recompute
        self.vocab_size, self.max_len = vocab_size, max_len

    def tokens(self):
        count = self.max_len if self.fills else self.max_len - 2
        if not self.repeats:
            return [i % self.vocab_size for i in range(count)]
        return [self.vocab_size - 1] * 3 + [3 * i % self.vocab_size for i in range(count - 3)]

    def run(self, decoder, tokens, given=0):
        want = self.recompute(tokens)
        steps = list(range(given, len(tokens)))
        watched = set(steps[self.positions])
        for t in steps:
            got = decoder.step(tokens[t])
            if t in watched and not self.same(got, want[t]):
                return False
        return True

    def refused(self, decoder, token):
        length = len(decoder)
        try:
            decoder.step(token)
        except ValueError:
            return not self.lengths or len(decoder) == length
        return False

    def __call__(self):
        decoder, tokens = self.make_decoder(), self.tokens()
        half = len(tokens) // 2
        if not self.run(decoder, tokens[:half]):
            return False
        if self.bad and not (self.refused(decoder, -1) and self.refused(decoder, self.vocab_size)):
            return False
        if self.after and not self.run(decoder, tokens, given=half):
            return False
        if not self.after:
            decoder = self.make_decoder()
            if not self.run(decoder, tokens):
                return False
        if self.overflow and self.fills and not self.refused(decoder, tokens[0]):
            return False
        if not self.second:
            return True
        decoder.reset()
        if len(decoder) != 0 or not self.run(decoder, tokens[::-1]):
            return False
        return not (self.again and self.overflow and self.fills) or self.refused(decoder, tokens[0])


def weak(**changes):
    """A test as a learner would hand it in: the sound one with something left out."""

    def accepts(make_decoder, recompute, vocab_size, max_len):
        tester = type("Weak", (Tester,), {k: staticmethod(v) if callable(v) else v for k, v in changes.items()})
        try:
            return tester(make_decoder, recompute, vocab_size, max_len)()
        except Exception:
            return False

    return accepts


reference = weak()


def always_true(make_decoder, recompute, vocab_size, max_len):
    return True


def always_false(make_decoder, recompute, vocab_size, max_len):
    return False


def with_itself(make_decoder, recompute, vocab_size, max_len):
    """Compares two decoders of the same kind with each other."""
    tokens = [2, 2, 0, 1, 4]
    one, two = make_decoder(), make_decoder()
    return all(close(one.step(token), np.asarray(two.step(token))) for token in tokens)


def crashes_are_fine(make_decoder, recompute, vocab_size, max_len):
    try:
        return bool(Tester(make_decoder, recompute, vocab_size, max_len)())
    except Exception:
        return True


def returns_difference(make_decoder, recompute, vocab_size, max_len):
    decoder = make_decoder()
    return float(np.abs(np.asarray(decoder.step(1)) - recompute([1])[0]).max())


MISTAKES = (
    Mistake("accepts-everything", always_true, "Your test accepts every decoder.", "right ones accepted"),
    Mistake(
        "rejects-everything", always_false, "Your test rejects every decoder, right ones too.", "right ones accepted"
    ),
    Mistake(
        "exact-equality",
        weak(same=exactly),
        "Your test wants bit-for-bit equality. Right decoders differ by rounding: allow about 1e-4.",
        killed_by="right ones accepted",
        seen_in="tests with == or torch.equal on floats",
    ),
    Mistake(
        "too-strict",
        weak(same=lambda got, want: close(got, want, 1e-12)),
        "Your tolerance is smaller than float32 rounding, so a right decoder fails. Allow about 1e-4.",
        killed_by="right ones accepted",
    ),
    Mistake(
        "compares-the-best-token",
        weak(same=argmax_equal),
        "Your test compares best tokens (argmax). Wrong logits can have the right maximum: compare the logits.",
        killed_by="logits",
        seen_in="most public tests of KV caches",
    ),
    Mistake("compares-sums", weak(same=same_sum), "Your test compares one sum. Compare every logit.", "logits"),
    Mistake(
        "too-loose",
        weak(same=lambda got, want: close(got, want, 1e9)),
        "Your tolerance is so large that wrong logits pass.",
        killed_by="right ones accepted",
    ),
    Mistake(
        "no-absolute-value",
        weak(same=signed),
        "Differences are compared with their sign: logits that are far too small pass. Use np.abs.",
        killed_by="logits",
    ),
    Mistake(
        "nan-passes",
        weak(same=nan_passes),
        "NaN logits pass: `error > tolerance` is False for NaN. Ask the other way round: not (error < tolerance).",
        killed_by="logits",
    ),
    Mistake(
        "first-position-only",
        weak(positions=slice(0, 1), after=False, bad=False, overflow=False, second=False),
        "Your test compares the first position only, and that needs no cache at all.",
        killed_by="logits",
    ),
    Mistake(
        "last-position-only",
        weak(positions=slice(-1, None)),
        "Your test compares the last position of a run only. Compare every one.",
        killed_by="every position",
    ),
    Mistake(
        "no-repeated-token",
        weak(repeats=False),
        "Your tokens are 0, 1, 2, ...: they equal their own positions, and none comes twice in a row.",
        killed_by="every position",
    ),
    Mistake(
        "never-full",
        weak(fills=False),
        "Your test never fills all max_len positions.",
        killed_by="every position",
    ),
    Mistake(
        "no-overflow",
        weak(overflow=False),
        "Your test never asks for one token more than fits.",
        killed_by="refusals",
        seen_in="most public tests of KV caches",
    ),
    Mistake("no-bad-tokens", weak(bad=False), "Your test never tries a token outside the vocabulary.", "refusals"),
    Mistake(
        "length-after-refusal",
        weak(lengths=False),
        "Your test does not look at len(decoder) after a refusal: a refused token must not be counted.",
        killed_by="refusals",
    ),
    Mistake(
        "nothing-after-refusal",
        weak(after=False),
        "Your test does not go on after a refused token, so damage done by the refusal is not seen.",
        killed_by="refusals",
    ),
    Mistake("one-run-only", weak(second=False), "Your test never calls reset() and runs again.", "second run"),
    Mistake(
        "no-overflow-after-reset",
        weak(again=False),
        "Your test asks for one token too many in the first run only. A limit can get lost in reset().",
        killed_by="second run",
    ),
    Mistake(
        "compares-with-itself",
        with_itself,
        "Your test compares the decoder with itself: both are wrong in the same way. Compare with recompute(tokens).",
        killed_by="right ones accepted",
        seen_in="tests that build the expected value with the code under test",
    ),
    Mistake(
        "crashes-pass",
        crashes_are_fine,
        "Your test says True when the decoder raises unexpectedly. Only an expected refusal is right.",
        killed_by="refusals",
    ),
    Mistake(
        "returns-a-number",
        returns_difference,
        "Your test returns a number. Return True or False.",
        "right ones accepted",
    ),
)


def straight(make_decoder, recompute, vocab_size, max_len):
    """One function, no helper, assertions caught at the end; a fresh decoder for each question."""
    rng = np.random.default_rng(0)
    try:
        for count in (max_len, max_len, 5):
            tokens = [int(token) for token in rng.integers(0, vocab_size, size=count)]
            tokens[1] = tokens[0] = vocab_size - 1
            decoder = make_decoder()
            got = np.array([np.ravel(decoder.step(token)) for token in tokens])
            np.testing.assert_allclose(got, recompute(tokens), atol=1e-4)
            bad = [-1, vocab_size] + ([0] if count == max_len else [])
            for token in bad:
                try:
                    decoder.step(token)
                except ValueError:
                    assert len(decoder) == count
                else:
                    return False
            decoder.reset()
            assert len(decoder) == 0
            tokens = tokens[::-1]
            for bad_token in (-1, vocab_size):
                for t, token in enumerate(tokens[:3]):
                    np.testing.assert_allclose(np.ravel(decoder.step(token)), recompute(tokens[: t + 1])[-1], atol=1e-4)
                try:
                    decoder.step(bad_token)
                    return False
                except ValueError:
                    pass
                for t in range(3, count):
                    np.testing.assert_allclose(np.ravel(decoder.step(tokens[t])), recompute(tokens)[t], atol=1e-4)
                if count == max_len:
                    try:
                        decoder.step(0)
                        return False
                    except ValueError:
                        pass
                decoder.reset()
        return True
    except (AssertionError, IndexError, TypeError, ValueError):
        return False


def one_decoder(make_decoder, recompute, vocab_size, max_len):
    """One decoder all the way, relative tolerance, everything in one list of conditions."""
    decoder = make_decoder()
    seen = []

    def say(token):
        seen.append(token)
        got, want = np.ravel(np.asarray(decoder.step(token), dtype=float)), recompute(seen)[-1]
        return got.shape == want.shape and np.linalg.norm(got - want) <= 1e-4 * (1 + np.linalg.norm(want))

    def refuses(token):
        before = len(decoder)
        try:
            decoder.step(token)
        except ValueError:
            return len(decoder) == before
        return False

    try:
        for _ in range(2):
            seen.clear()
            for i in range(max_len):
                if not say((vocab_size - 1 - i // 2) if i else 0):
                    return False
                if i == 2 and not (refuses(-1) and refuses(vocab_size)):
                    return False
            if not refuses(1):
                return False
            decoder.reset()
        return len(decoder) == 0
    except Exception:
        return False


def by_list(make_decoder, recompute, vocab_size, max_len):
    """Tolerance on the mean absolute difference, results gathered in a list."""
    results = []
    decoder = make_decoder()
    for prompt in ([5, 5, 3, 3, 6, 0, 1, 1], [4, 4, 2, 6], [6, 0, 0, 2, 1, 3, 4, 5]):
        want = recompute(prompt)
        for t, token in enumerate(prompt):
            try:
                results.append(np.mean(np.abs(np.ravel(decoder.step(token)) - want[t])) < 1e-4)
            except Exception:
                return False
            if t == 2:
                for bad in (-1, vocab_size, 10 * vocab_size):
                    try:
                        decoder.step(bad)
                        results.append(False)
                    except ValueError:
                        results.append(len(decoder) == t + 1)
                    except Exception:
                        results.append(False)
        if len(prompt) == max_len:
            try:
                decoder.step(0)
                results.append(False)
            except ValueError:
                results.append(len(decoder) == max_len)
        decoder.reset()
        results.append(len(decoder) == 0)
    return bool(np.all(results))


VARIANTS = (
    Variant("one function, assertions", straight),
    Variant("one decoder all the way", one_decoder),
    Variant("a list of results", by_list),
)
