"""Wrong and right ways to write a scheduler. Each mistake is `Base` with one part changed."""

from __future__ import annotations

import heapq
from collections import deque

from autograde.exercise import Mistake, Variant

ONE, TOGETHER, WAITING, GROWING, NEVER, WORK = "one request", "together", "waiting", "growing", "never", "work"


class Base:
    """First come, first served; the newest gives way."""

    def __init__(self, engine, requests):
        self.engine, self.requests = engine, requests
        self.made = [[] for _ in requests]
        self.running = []
        self.waiting = [i for i in range(len(requests)) if self.can_ever_fit(i)]
        self.prepare()

    def prepare(self):
        pass

    def need(self, tokens):
        return -(-tokens // self.engine.block_size)

    def most(self, i):
        return len(self.requests[i]["prompt"]) + self.requests[i]["new"] - 1

    def can_ever_fit(self, i):
        return self.need(self.most(i)) <= self.engine.num_blocks

    def tokens(self, i):
        return self.requests[i]["prompt"] + self.made[i]

    def has_room(self, i):
        return self.need(len(self.tokens(i))) <= self.engine.free_blocks()

    def done(self, i):
        return len(self.made[i]) >= self.requests[i]["new"]

    def take(self, i, token):
        self.made[i].append(token)

    def begin(self, i):
        self.take(i, self.engine.start(i, self.tokens(i)))
        self.running.append(i)

    def admit(self):
        while self.waiting and self.has_room(self.waiting[0]):
            i = self.waiting.pop(0)
            self.begin(i)
            if self.done(i):
                self.finish(i)

    def finish(self, i):
        self.running.remove(i)
        self.engine.stop(i)

    def leave(self):
        for i in list(self.running):
            if self.done(i):
                self.finish(i)

    def ids(self):
        return self.running

    def step(self):
        ids = list(self.ids())
        try:
            tokens = self.engine.step(ids)
        except ValueError:
            self.give_way()
        else:
            self.hand_out(ids, tokens)
            self.leave()

    def hand_out(self, ids, tokens):
        for i, token in zip(ids, tokens):
            self.take(i, token)

    def victim(self):
        return self.running[-1]

    def give_way(self):
        i = self.victim()
        self.running.remove(i)
        self.engine.stop(i)
        self.waiting.insert(0, i)

    def goes_on(self):
        return self.waiting or self.running

    def results(self):
        return [made if self.can_ever_fit(i) else None for i, made in enumerate(self.made)]

    def run(self):
        while self.goes_on():
            self.admit()
            if self.running:
                self.step()
        return self.results()


def work(scheduler):
    def serve(engine, requests):
        return scheduler(engine, requests).run()

    return serve


# How many tokens, and which.


class OneMore(Base):
    def done(self, i):
        return len(self.made[i]) > self.requests[i]["new"]


class OneFewer(Base):
    def done(self, i):
        return len(self.made[i]) >= self.requests[i]["new"] - 1


class StartsTokenDropped(Base):
    """The token that start makes is not kept, although the steps go on from it."""

    def begin(self, i):
        self.engine.start(i, self.tokens(i))
        self.running.append(i)


class PromptInTheResult(Base):
    def results(self):
        return [None if r is None else self.requests[i]["prompt"] + r for i, r in enumerate(super().results())]


class NeverStopped(Base):
    def finish(self, i):
        self.running.remove(i)


class StepsAtLeastOnce(Base):
    """Whether a request is ready is only looked at after a step."""

    def admit(self):
        while self.waiting and self.has_room(self.waiting[0]):
            self.begin(self.waiting.pop(0))


class OneForTheFirst(Base):
    """new counts the tokens that steps make."""

    def done(self, i):
        return len(self.made[i]) >= self.requests[i]["new"] + (self.requests[i]["new"] > 1)


class ZeroIsNone(Base):
    def take(self, i, token):
        if token:
            super().take(i, token)


class StopsAtZero(Base):
    def done(self, i):
        return super().done(i) or 0 in self.made[i]


class LastTokenOnly(Base):
    def results(self):
        return [made[-1] if self.can_ever_fit(i) else None for i, made in enumerate(self.made)]


class Sorted(Base):
    def results(self):
        return [made and sorted(made) for made in super().results()]


# Together.


class InOrderOfFinishing(Base):
    def prepare(self):
        self.ready = []

    def finish(self, i):
        super().finish(i)
        self.ready.append(self.made[i])

    def results(self):
        return self.ready


class ByLength(Base):
    def prepare(self):
        self.waiting.sort(key=self.most)
        self.order = list(self.waiting)

    def results(self):
        return [self.made[i] for i in self.order]


class OneAtATime(Base):
    def has_room(self, i):
        return not self.running and super().has_room(i)


class TwoAtATime(Base):
    def has_room(self, i):
        return len(self.running) < 2 and super().has_room(i)


class OneStepEach(Base):
    """All run, but each is stepped for itself."""

    def step(self):
        for i in list(self.running):
            try:
                self.take(i, self.engine.step([i])[0])
            except ValueError:
                self.give_way()
                return
        self.leave()


class FirstOnly(Base):
    """All have blocks, one gets on."""

    def ids(self):
        return self.running[:1]


class FinishedGoOn(Base):
    """Those that are ready stay until all that run are."""

    def leave(self):
        if all(self.done(i) for i in self.running):
            for i in list(self.running):
                self.finish(i)

    def admit(self):
        if not self.running:
            while self.waiting and self.has_room(self.waiting[0]):
                self.begin(self.waiting.pop(0))
            self.leave()

    def results(self):
        cut = (made[: self.requests[i]["new"]] for i, made in enumerate(self.made))
        return [made if self.can_ever_fit(i) else None for i, made in enumerate(cut)]


class OneStepTooFar(Base):
    """The last new token is stored too; what comes then is thrown away."""

    def done(self, i):
        return len(self.made[i]) > self.requests[i]["new"]

    def can_ever_fit(self, i):
        return self.need(self.most(i) + 1) <= self.engine.num_blocks

    def results(self):
        return [self.made[i][:-1] if self.can_ever_fit(i) else None for i in range(len(self.made))]


class ZippedInOrder(Base):
    """The newest is put first, and the tokens go to the others' places."""

    def ids(self):
        return self.running[::-1]

    def hand_out(self, ids, tokens):
        for i, token in zip(sorted(ids), tokens):
            self.take(i, token)


class IndexIsTheRequest(Base):
    """Token k of a step is taken for that of request k."""

    def hand_out(self, ids, tokens):
        for k, token in enumerate(tokens):
            self.take(k, token)


class RemovedWhileHandedOut(Base):
    """Out of the list that the loop walks through."""

    def hand_out(self, ids, tokens):
        for i, token in zip(self.running, tokens):
            self.take(i, token)
            if self.done(i):
                self.finish(i)


class RemovedWhileLooping(Base):
    def leave(self):
        for i in self.running:
            if self.done(i):
                self.finish(i)


class KeyedByPrompt(Base):
    """Two requests with one prompt are one."""

    def results(self):
        known = {}
        for i, request in enumerate(self.requests):
            known[tuple(request["prompt"])] = super().results()[i]
        return [known[tuple(request["prompt"])] for request in self.requests]


class TwinsLeftOut(Base):
    def prepare(self):
        prompts = [request["prompt"] for request in self.requests]
        self.waiting = [i for i in self.waiting if prompts.index(prompts[i]) == i]


class StartedForEachToken(Base):
    """No step at all: what was made is computed again for each token."""

    def step(self):
        for i in list(self.running):
            self.engine.stop(i)
            self.take(i, self.engine.start(i, self.tokens(i)))
        self.leave()


class NothingOnNoRequests(Base):
    def results(self):
        return super().results() or None


class ComputedTwice(Base):
    """Started once to see whether it fits, and once more to run."""

    def begin(self, i):
        self.engine.start(i, self.tokens(i))
        self.engine.stop(i)
        super().begin(i)


# Waiting.


class AllAtOnce(Base):
    def has_room(self, i):
        return True


class RoomInTokens(Base):
    """What is left unused in the last block of others counts as room."""

    def has_room(self, i):
        held = sum(len(self.tokens(j)) - 1 for j in self.running)
        return held + len(self.tokens(i)) <= self.engine.num_blocks * self.engine.block_size


class RoomRoundedDown(Base):
    def has_room(self, i):
        return len(self.tokens(i)) // self.engine.block_size <= self.engine.free_blocks()


class BlocksAsTokens(Base):
    def has_room(self, i):
        return len(self.tokens(i)) <= self.engine.free_blocks()


class OneBlockAlwaysFree(Base):
    def has_room(self, i):
        return self.need(len(self.tokens(i))) < self.engine.free_blocks()


class FreeCountedOnce(Base):
    """The free blocks are asked for once, before those that wait are started."""

    def admit(self):
        free = self.engine.free_blocks()
        while self.waiting and self.need(len(self.tokens(self.waiting[0]))) <= free:
            i = self.waiting.pop(0)
            self.begin(i)
            if self.done(i):
                self.finish(i)


class NoWaiting(Base):
    """What does not fit now gets None."""

    def prepare(self):
        self.refused = set()

    def admit(self):
        super().admit()
        self.refused.update(self.waiting)
        self.waiting.clear()

    def results(self):
        return [None if i in self.refused else made for i, made in enumerate(super().results())]


class OutOfTheList(Base):
    """Taken from those that wait before it is known whether it fits."""

    def admit(self):
        while self.waiting:
            i = self.waiting.pop(0)
            if not self.has_room(i):
                break
            self.begin(i)
            if self.done(i):
                self.finish(i)


class StartedOnceOnly(Base):
    """Whoever does not fit before the first step is not looked at again."""

    def prepare(self):
        self.first = True

    def admit(self):
        if self.first:
            super().admit()
        self.first = False

    def goes_on(self):
        return self.first or self.running


class GivenBackAtTheEnd(Base):
    def finish(self, i):
        self.running.remove(i)
        self.ended = [*getattr(self, "ended", []), i]

    def results(self):
        for i in getattr(self, "ended", []):
            self.engine.stop(i)
        return super().results()


# Growing.


class NeverGivesWay(Base):
    def step(self):
        ids = list(self.running)
        self.hand_out(ids, self.engine.step(ids))
        self.leave()


class TriesAgain(Base):
    def give_way(self):
        pass


class ResumedWithThePrompt(Base):
    def begin(self, i):
        self.take(i, self.engine.start(i, self.requests[i]["prompt"]))
        self.running.append(i)


class ResumedWithTheMade(Base):
    def begin(self, i):
        self.take(i, self.engine.start(i, self.made[i] or self.requests[i]["prompt"]))
        self.running.append(i)


class ResumedWithoutTheNewest(Base):
    """Its newest token was not stored, so it is left out; but it is in the list already, and comes again."""

    def begin(self, i):
        self.take(i, self.engine.start(i, self.requests[i]["prompt"] + self.made[i][:-1]))
        self.running.append(i)


class ResumedWithTheNewest(Base):
    """Only the last token made is put after the prompt."""

    def begin(self, i):
        self.take(i, self.engine.start(i, self.requests[i]["prompt"] + self.made[i][-1:]))
        self.running.append(i)


class ResumedTokenDropped(Base):
    """The token that a second start makes is not kept."""

    def begin(self, i):
        token = self.engine.start(i, self.tokens(i))
        self.running.append(i)
        if not self.made[i]:
            self.take(i, token)


class CountsFromAnew(Base):
    """What was made becomes the prompt, and n more are made."""

    def give_way(self):
        i = self.victim()
        super().give_way()
        self.requests[i]["prompt"] = self.tokens(i)
        self.made[i] = []

    def can_ever_fit(self, i):
        return True


class LostBefore(Base):
    """The result holds what came after the last start."""

    def give_way(self):
        i = self.victim()
        super().give_way()
        self.requests[i] = {"prompt": self.tokens(i), "new": self.requests[i]["new"] - len(self.made[i])}
        self.made[i] = []


class StartsAllOver(Base):
    """Everything it has made is thrown away."""

    def give_way(self):
        self.made[self.victim()] = []
        super().give_way()


class NeverResumed(Base):
    def give_way(self):
        super().give_way()
        self.waiting.pop(0)


class NoneWhenStopped(Base):
    def prepare(self):
        self.stopped = set()

    def give_way(self):
        super().give_way()
        self.stopped.add(self.waiting.pop(0))

    def results(self):
        return [None if i in self.stopped else made for i, made in enumerate(super().results())]


class GivesUp(Base):
    """The first refused step ends it all."""

    def give_way(self):
        for i in self.running:
            self.engine.stop(i)
        self.running, self.waiting = [], []


class OldTokensAgain(Base):
    """After a refused step the tokens of the step before are handed out."""

    tokens_before = ()

    def hand_out(self, ids, tokens):
        super().hand_out(ids, tokens)
        self.tokens_before = tokens

    def give_way(self):
        ids = list(self.running)
        super().give_way()
        self.hand_out(ids, self.tokens_before)
        self.leave()


class StillInTheList(Base):
    def give_way(self):
        i = self.victim()
        self.engine.stop(i)
        self.waiting.insert(0, i)


class NotStopped(Base):
    """It goes back to those that wait, and keeps its blocks."""

    def give_way(self):
        i = self.victim()
        self.running.remove(i)
        self.waiting.insert(0, i)


class OneStopIsEnough(Base):
    def give_way(self):
        super().give_way()
        ids = list(self.running)
        self.hand_out(ids, self.engine.step(ids))
        self.leave()


class OnlyThoseThatFit(Base):
    """Each is stepped for itself where not all fit, and the others wait for blocks that nobody gives back."""

    def give_way(self):
        for i in list(self.running):
            try:
                self.take(i, self.engine.step([i])[0])
            except ValueError:
                continue
        self.leave()


class WrongOneInTheList(Base):
    """The newest is stopped, the oldest is put back."""

    def give_way(self):
        i = self.running.pop()
        self.engine.stop(i)
        self.waiting.insert(0, self.running.pop(0) if self.running else i)


class OthersLoseAToken(Base):
    """A refused step is taken for one that made nothing but stored the newest tokens."""

    def give_way(self):
        super().give_way()
        for i in self.running:
            self.made[i].pop()


# Never.


class LastIsStored(Base):
    def most(self, i):
        return super().most(i) + 1


class TwoAreNotStored(Base):
    def most(self, i):
        return super().most(i) - 1


class PromptDecides(Base):
    def most(self, i):
        return len(self.requests[i]["prompt"])


class NewDecides(Base):
    def most(self, i):
        return self.requests[i]["new"]


class WaitsForEver(Base):
    def can_ever_fit(self, i):
        return True


class FloorOfBlocks(Base):
    def can_ever_fit(self, i):
        return self.most(i) // self.engine.block_size <= self.engine.num_blocks


class PartsRoundedApart(Base):
    """The prompt's blocks and those of the new tokens, each rounded up."""

    def can_ever_fit(self, i):
        p, n = len(self.requests[i]["prompt"]), self.requests[i]["new"]
        return self.need(p) + self.need(n - 1) <= self.engine.num_blocks


class BlocksBehindIt(Base):
    """Nobody behind one that never fits is looked at."""

    def prepare(self):
        bad = [i for i in range(len(self.made)) if not self.can_ever_fit(i)]
        self.waiting = [i for i in self.waiting if not bad or i < bad[0]]


class EmptyList(Base):
    def results(self):
        return [made or [] for made in super().results()]


class LeftOut(Base):
    def results(self):
        return [made for made in super().results() if made is not None]


class Raises(Base):
    def prepare(self):
        for i in range(len(self.made)):
            if not self.can_ever_fit(i):
                raise ValueError(f"request {i} can never fit")


class NoneForAll(Base):
    def results(self):
        results = super().results()
        return [None] * len(results) if None in results else results


class AsFarAsItGoes(Base):
    """It gets the tokens that fit."""

    def prepare(self):
        room = self.engine.num_blocks * self.engine.block_size
        for i, request in enumerate(self.requests):
            p = len(request["prompt"])
            if p <= room < p + request["new"] - 1:
                request["new"] = room - p + 1
                self.waiting.append(i)
        self.waiting.sort()


# Work.


class WholeBatches(Base):
    """Nobody is started before all that run are ready."""

    def admit(self):
        if not self.running:
            super().admit()


class TakesTurns(Base):
    """After each step all that run are stopped, so that others get their turn."""

    def leave(self):
        super().leave()
        if self.waiting:
            for i in self.running:
                self.engine.stop(i)
            self.waiting += self.running
            self.running = []


class OneByOneFromThen(Base):
    """After one refused step they run one at a time."""

    alone = False

    def has_room(self, i):
        return not (self.alone and self.running) and super().has_room(i)

    def give_way(self):
        self.alone = True
        while len(self.running) > 1:
            super().give_way()


MISTAKES = (
    Mistake(
        "one-token-more",
        work(OneMore),
        "You make n + 1 tokens. `start` makes the first one already, so n - 1 steps are left.",
        killed_by=ONE,
    ),
    Mistake(
        "one-token-fewer",
        work(OneFewer),
        "You make n - 1 tokens. `start` makes one, and each step one more: go on until there are n.",
        killed_by=ONE,
    ),
    Mistake(
        "starts-token-dropped",
        work(StartsTokenDropped),
        "The token that `start` returns is the first new one. You do not keep it.",
        killed_by=ONE,
    ),
    Mistake(
        "prompt-in-the-result",
        work(PromptInTheResult),
        "Your results begin with the prompt. Wanted are the new tokens only.",
        killed_by=ONE,
    ),
    Mistake(
        "never-stopped",
        work(NeverStopped),
        "You take a finished request out of your list, but do not `stop` it: its blocks never come back.",
        killed_by=ONE,
    ),
    Mistake(
        "steps-at-least-once",
        work(StepsAtLeastOnce),
        "You look for finished requests after a step only. With new = 1, `start` has made the only token already.",
        killed_by=ONE,
    ),
    Mistake(
        "new-counts-steps",
        work(OneForTheFirst),
        "You make n tokens by steps, and one by `start`: one too many. `start` counts.",
        killed_by=ONE,
    ),
    Mistake(
        "zero-is-no-token",
        work(ZeroIsNone),
        "You drop token 0, as `if token:` does. It is a token like any other.",
        killed_by=ONE,
    ),
    Mistake(
        "ends-at-a-token",
        work(StopsAtZero),
        "You end a request at a certain token. It ends when it has n new ones, whatever they are.",
        killed_by=ONE,
    ),
    Mistake(
        "last-token-only",
        work(LastTokenOnly),
        "You return one token for each request. Wanted is the list of all its new tokens.",
        killed_by=ONE,
    ),
    Mistake(
        "sorted-tokens",
        work(Sorted),
        "You sort the tokens of a request. They stay in the order in which they were made.",
        killed_by=ONE,
    ),
    Mistake(
        "in-order-of-finishing",
        work(InOrderOfFinishing),
        "Your results come in the order in which requests finish. Wanted is the order of `requests`.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "in-order-of-length",
        work(ByLength),
        "You sort the requests, and return the results in that order. Wanted is the order of `requests`.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "one-at-a-time",
        work(OneAtATime),
        "You serve one request after the other. Start all that fit, and make one step for all of them.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "two-at-a-time",
        work(TwoAtATime),
        "No more than two of your requests run at a time. Start all that fit: blocks are the only limit.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "a-step-for-each",
        work(OneStepEach),
        "You make one step for each request. One call takes all that run: `engine.step(running)`.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "one-gets-on",
        work(FirstOnly),
        "You start all, but step only the oldest. Step all that run together.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "finished-go-on",
        work(FinishedGoOn),
        "You step finished requests until all are ready, and cut their tokens. Stop each as soon as it has n.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "last-token-stored",
        work(OneStepTooFar),
        "You make one step too many and drop its token. The last new token is never stored.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "zipped-in-another-order",
        work(ZippedInOrder),
        "You pass ids in one order and hand out the tokens in another. Token k belongs to ids[k].",
        killed_by=TOGETHER,
    ),
    Mistake(
        "token-k-for-request-k",
        work(IndexIsTheRequest),
        "You take token k of a step for that of request k. It belongs to ids[k], the k-th that was passed.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "removed-while-handing-out",
        work(RemovedWhileHandedOut),
        "You take requests out of the list that your loop hands tokens to. The next one is skipped, and the rest move up.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "removed-while-looping",
        work(RemovedWhileLooping),
        "You take finished requests out of the list that you loop over, so the next one is skipped. Build a new list.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "keyed-by-prompt",
        work(KeyedByPrompt),
        "You keep results by prompt. Two requests may have the same prompt, and ask for different numbers of tokens.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "twins-left-out",
        work(TwinsLeftOut),
        "A request with the same prompt as an earlier one is not served. Each request is one of its own.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "started-for-each-token",
        work(StartedForEachToken),
        "You stop and start requests to get the next token. That computes everything again: `step` does not.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "started-twice",
        work(ComputedTwice),
        "You start each request twice. `free_blocks()` tells beforehand whether it fits.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "none-for-no-requests",
        work(NothingOnNoRequests),
        "For an empty list of requests you return None. Wanted is an empty list.",
        killed_by=TOGETHER,
    ),
    Mistake(
        "all-at-once",
        work(AllAtOnce),
        "You start requests without asking for room. Compare their blocks with `free_blocks()`, and let them wait.",
        killed_by=WAITING,
    ),
    Mistake(
        "room-in-tokens",
        work(RoomInTokens),
        "You count room in tokens. The rest of somebody's last block is not free: count whole blocks.",
        killed_by=WAITING,
    ),
    Mistake(
        "room-rounded-down",
        work(RoomRoundedDown),
        "You round the blocks of a prompt down. 6 tokens in blocks of 5 take two: round up.",
        killed_by=WAITING,
    ),
    Mistake(
        "room-of-one-token-a-block",
        work(BlocksAsTokens),
        "You compare tokens with blocks. A block holds block_size tokens, so some of your requests wait for ever.",
        killed_by=WAITING,
    ),
    Mistake(
        "one-block-always-free",
        work(OneBlockAlwaysFree),
        "You start a request only if a block is left over. One that needs the whole pool waits for ever: `<=`, not `<`.",
        killed_by=WAITING,
    ),
    Mistake(
        "free-blocks-asked-once",
        work(FreeCountedOnce),
        "You ask for the free blocks once and then start several. Each start takes some: ask again.",
        killed_by=WAITING,
    ),
    Mistake(
        "no-waiting",
        work(NoWaiting),
        "What does not fit now gets None. None is for what can never fit; others wait until blocks are given back.",
        killed_by=WAITING,
    ),
    Mistake(
        "taken-out-before-it-fits",
        work(OutOfTheList),
        "You take a request from those that wait before you know that it fits. If not, it is lost: look first.",
        killed_by=WAITING,
    ),
    Mistake(
        "started-in-one-go-only",
        work(StartedOnceOnly),
        "You start requests before the first step only. Look again after each step: blocks have come back.",
        killed_by=WAITING,
    ),
    Mistake(
        "given-back-at-the-end",
        work(GivenBackAtTheEnd),
        "You give blocks back at the very end. Others wait for them: `stop` a request when it has its tokens.",
        killed_by=WAITING,
    ),
    Mistake(
        "never-gives-way",
        work(NeverGivesWay),
        "A step that does not fit ends your program. Catch the ValueError, stop one request, and step again.",
        killed_by=GROWING,
    ),
    Mistake(
        "tries-again",
        work(TriesAgain),
        "You repeat a refused step, and nothing has changed. Stop a request, so that blocks come back.",
        killed_by=GROWING,
    ),
    Mistake(
        "resumed-with-the-prompt-only",
        work(ResumedWithThePrompt),
        "You start a stopped request with its prompt only. It has made tokens since: start it with prompt + made.",
        killed_by=GROWING,
    ),
    Mistake(
        "resumed-without-the-prompt",
        work(ResumedWithTheMade),
        "You start a stopped request with the tokens it has made, without the prompt before them.",
        killed_by=GROWING,
    ),
    Mistake(
        "resumed-without-the-newest",
        work(ResumedWithoutTheNewest),
        "You leave the newest token out when you start again. It comes a second time, and you keep both.",
        killed_by=GROWING,
    ),
    Mistake(
        "resumed-with-the-newest-only",
        work(ResumedWithTheNewest),
        "You start a stopped request with the prompt and its newest token. All that it has made belongs in between.",
        killed_by=GROWING,
    ),
    Mistake(
        "resumed-token-dropped",
        work(ResumedTokenDropped),
        "`start` with prompt + made returns the next new token. You do not keep it when a request starts again.",
        killed_by=GROWING,
    ),
    Mistake(
        "counts-from-anew",
        work(CountsFromAnew),
        "After a stop you count the new tokens from 0 again. Those made before count.",
        killed_by=GROWING,
    ),
    Mistake(
        "made-before-is-lost",
        work(LostBefore),
        "Your results hold what came after the last start only. Keep the tokens made before it.",
        killed_by=GROWING,
    ),
    Mistake(
        "starts-all-over",
        work(StartsAllOver),
        "You throw away what a stopped request has made. It starts from its prompt again, and may never get further.",
        killed_by=GROWING,
    ),
    Mistake(
        "never-resumed",
        work(NeverResumed),
        "A stopped request is not started again. Put it back among those that wait.",
        killed_by=GROWING,
    ),
    Mistake(
        "none-when-stopped",
        work(NoneWhenStopped),
        "A stopped request gets None. It fits when others have finished: put it back among those that wait.",
        killed_by=GROWING,
    ),
    Mistake(
        "gives-up",
        work(GivesUp),
        "You end everything at the first refused step. Stop one request; the others go on.",
        killed_by=GROWING,
    ),
    Mistake(
        "old-tokens-again",
        work(OldTokensAgain),
        "After a refused step you hand out the tokens of the step before. It made none: step again.",
        killed_by=GROWING,
    ),
    Mistake(
        "stopped-but-still-listed",
        work(StillInTheList),
        "You stop a request and leave it in the list of those that run. Take it out.",
        killed_by=GROWING,
    ),
    Mistake(
        "not-stopped",
        work(NotStopped),
        "You put a request back among those that wait, but do not `stop` it. It keeps its blocks.",
        killed_by=GROWING,
    ),
    Mistake(
        "one-stop-is-enough",
        work(OneStopIsEnough),
        "You stop one request and expect the next step to fit. It may not: go on until it does.",
        killed_by=GROWING,
    ),
    Mistake(
        "all-wait-for-blocks",
        work(OnlyThoseThatFit),
        "You leave out those for which there is no block. In the end all wait for one, and nobody gives any back.",
        killed_by=GROWING,
    ),
    Mistake(
        "wrong-one-put-back",
        work(WrongOneInTheList),
        "You stop one request and put another one back among those that wait.",
        killed_by=GROWING,
    ),
    Mistake(
        "others-lose-a-token",
        work(OthersLoseAToken),
        "After a refused step you drop the newest token of those that still run. All or nothing: they have lost none.",
        killed_by=GROWING,
    ),
    Mistake(
        "last-is-counted",
        work(LastIsStored),
        "You ask room for p + n tokens. The last new token is never stored: p + n - 1 decides.",
        killed_by=NEVER,
    ),
    Mistake(
        "one-too-few-counted",
        work(TwoAreNotStored),
        "You ask room for p + n - 2 tokens. All but the last new one are stored: p + n - 1 decides.",
        killed_by=NEVER,
    ),
    Mistake(
        "prompt-decides",
        work(PromptDecides),
        "You only look whether the prompt fits. A request grows to p + n - 1 tokens, and alone it must fit as well.",
        killed_by=NEVER,
    ),
    Mistake(
        "new-decides",
        work(NewDecides),
        "You only look whether the new tokens fit. The prompt is stored too: p + n - 1 tokens.",
        killed_by=NEVER,
    ),
    Mistake(
        "waits-for-ever",
        work(WaitsForEver),
        "A request that can never fit waits for ever. Sort those out before the first round.",
        killed_by=NEVER,
    ),
    Mistake(
        "blocks-rounded-down",
        work(FloorOfBlocks),
        "You round a request's blocks down. 13 tokens in blocks of 3 take five blocks, not four.",
        killed_by=NEVER,
    ),
    Mistake(
        "parts-rounded-apart",
        work(PartsRoundedApart),
        "You round the blocks of the prompt and of the new tokens apart. New tokens fill up the prompt's last block.",
        killed_by=NEVER,
    ),
    Mistake(
        "blocks-those-behind",
        work(BlocksBehindIt),
        "Nobody behind a request that can never fit is served. It gets None, and the others go on.",
        killed_by=NEVER,
    ),
    Mistake(
        "empty-list-for-never",
        work(EmptyList),
        "A request that can never fit gets an empty list from you. Wanted is None.",
        killed_by=NEVER,
    ),
    Mistake(
        "never-is-left-out",
        work(LeftOut),
        "A request that can never fit is missing from your results, and the others move up. Put None in its place.",
        killed_by=NEVER,
    ),
    Mistake(
        "never-is-refused",
        work(Raises),
        "One request that can never fit, and you serve nobody. It gets None; no exception.",
        killed_by=NEVER,
    ),
    Mistake(
        "none-for-all",
        work(NoneForAll),
        "One request that can never fit, and all get None. Only its own result is None.",
        killed_by=NEVER,
    ),
    Mistake(
        "as-far-as-it-goes",
        work(AsFarAsItGoes),
        "A request that can never fit gets as many tokens as the pool has room for. Wanted is None.",
        killed_by=NEVER,
    ),
    Mistake(
        "whole-batches",
        work(WholeBatches),
        "You start nobody before all that run are ready. Start who waits as soon as blocks come back.",
        killed_by=WORK,
    ),
    Mistake(
        "takes-turns",
        work(TakesTurns),
        "You stop those that run after each step, so that others get their turn. All of it has to be computed again.",
        killed_by=WORK,
    ),
    Mistake(
        "one-by-one-from-then",
        work(OneByOneFromThen),
        "After a refused step you run one request at a time. Start all that fit again.",
        killed_by=WORK,
    ),
)


# Right work, built differently.


def reserved(engine, requests):
    """Nobody is started who could outgrow what is left: no step is ever refused."""

    def most(i):
        return -(-(len(requests[i]["prompt"]) + requests[i]["new"] - 1) // engine.block_size)

    results = [None] * len(requests)
    queue = deque(i for i in range(len(requests)) if most(i) <= engine.num_blocks)
    promised = {}
    while queue or promised:
        while queue and sum(promised.values()) + most(queue[0]) <= engine.num_blocks:
            i = queue.popleft()
            promised[i] = most(i)
            results[i] = [engine.start(i, requests[i]["prompt"])]
        for i in [i for i in promised if len(results[i]) == requests[i]["new"]]:
            del promised[i]
            engine.stop(i)
        ids = list(promised)
        if ids:
            for i, token in zip(ids, engine.step(ids)):
                results[i].append(token)
    return results


class TriesToStart(Base):
    """Never asks for free blocks: a refused start says the same. The oldest gives way, and goes to the end."""

    def admit(self):
        while self.waiting:
            try:
                self.begin(self.waiting[0])
            except ValueError:
                return
            i = self.waiting.pop(0)
            if self.done(i):
                self.finish(i)

    def give_way(self):
        i = self.running.pop(0)
        self.engine.stop(i)
        self.waiting.append(i)


class NewestAgain(Base):
    """A stopped request loses its newest token, which the pool does not hold, and makes it once more."""

    def give_way(self):
        self.made[self.victim()].pop()
        super().give_way()
        self.step()  # before anybody starts: it would be itself, and get no further

    def begin(self, i):
        super().begin(i)
        self.running.sort()


class AllGiveWay(Base):
    """A refused step stops everybody. One by one they come back, one in each round."""

    def give_way(self):
        for i in self.running:
            self.engine.stop(i)
        self.waiting = sorted(self.running + self.waiting)
        self.running = []

    def admit(self):
        if self.waiting and self.has_room(self.waiting[0]):
            self.begin(self.waiting.pop(0))
            self.leave()


class Stalls(Base):
    """Knows what every step takes. Who gets no block sits a step out; the one with most blocks goes when nobody moves."""

    def step(self):
        free, ids = self.engine.free_blocks(), []
        for i in self.running:
            grows = (len(self.tokens(i)) - 1) % self.engine.block_size == 0
            if free >= grows:
                free -= grows
                ids.append(i)
        if ids:
            self.hand_out(ids, self.engine.step(tuple(ids)))
        else:
            i = max(self.running, key=lambda i: len(self.tokens(i)))
            self.running.remove(i)
            self.engine.stop(i)
            self.waiting.append(i)
        self.leave()


def shortest_first(engine, requests):
    """A heap of those that wait, by the tokens still missing; records instead of lists."""
    size = engine.block_size
    states = [{"id": i, "all": list(r["prompt"]), "left": r["new"]} for i, r in enumerate(requests)]
    heap, active, answers = [], {}, {}
    for state in states:
        if len(state["all"]) + state["left"] - 1 <= engine.num_blocks * size:
            heapq.heappush(heap, (state["left"], state["id"]))

    def accept(state, token):
        state["all"].append(token)
        state["left"] -= 1
        if not state["left"]:
            engine.stop(state["id"])
            active.pop(state["id"])
            answers[state["id"]] = state["all"][-requests[state["id"]]["new"] :]

    while heap or active:
        refused = False
        while active:
            ids = sorted(active)
            try:
                tokens = engine.step(ids)
                break
            except ValueError:
                refused = True
                loser = max(active.values(), key=lambda state: (state["left"], state["id"]))
                del active[loser["id"]]
                engine.stop(loser["id"])
                heapq.heappush(heap, (loser["left"], loser["id"]))
        else:
            ids = tokens = []
        for i, token in zip(ids, tokens):
            accept(states[i], token)
        while heap and not refused and engine.free_blocks() * size >= len(states[heap[0][1]]["all"]):
            state = states[heapq.heappop(heap)[1]]
            active[state["id"]] = state
            accept(state, engine.start(state["id"], state["all"]))
    return [answers.get(i) for i in range(len(requests))]


VARIANTS = (
    Variant("room for the largest size is reserved", reserved),
    Variant("tries to start, the oldest gives way", work(TriesToStart)),
    Variant("makes its newest token again", work(NewestAgain)),
    Variant("all give way, one starts in a round", work(AllGiveWay)),
    Variant("sits steps out", work(Stalls)),
    Variant("shortest first, from a heap", shortest_first),
    Variant("first come, first served", work(Base)),
)
