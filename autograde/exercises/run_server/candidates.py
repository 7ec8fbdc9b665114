"""Wrong and right ways to write a server. Each mistake is `Base` with one part changed."""

from __future__ import annotations

from collections import OrderedDict

from autograde.exercise import Mistake, Variant

ONE, CHUNKS, MIXED, ABORTS, POOL = "one request", "chunks", "mixed", "aborts", "small pool"
FOUND, QUIET = "found again", "quiet"


class Request:
    """What a server knows of one."""

    def __init__(self, event):
        self.id, self.prompt, self.new = event["id"], list(event["prompt"]), event["new"]
        self.made = []
        self.stored = 0

    @property
    def tokens(self):
        return self.prompt + self.made

    @property
    def pending(self):
        return self.tokens[self.stored :]

    @property
    def decodes(self):
        return len(self.pending) == 1 and bool(self.made)


class Base:
    """First come, first served; decodes first, then prompts in chunks; the newest gives way."""

    def __init__(self, engine, desk):
        self.engine, self.desk = engine, desk
        self.waiting, self.running = [], []
        self.prepare()

    def prepare(self):
        pass

    # Events.

    def is_idle(self):
        return not self.waiting and not self.running

    def listen(self):
        return self.desk.wait() if self.is_idle() else self.desk.news()

    def handle(self, event):
        if event["kind"] == "ask":
            self.ask(Request(event))
        else:
            self.abort(event["id"])

    def ask(self, request):
        if self.can_ever_fit(request):
            self.waiting.append(request)
        else:
            self.refuse(request)

    def refuse(self, request):
        self.desk.close(request.id, "refused")

    def open(self, i):
        return next((request for request in self.waiting + self.running if request.id == i), None)

    def abort(self, i):
        request = self.open(i)
        if request is not None:
            self.drop(request)
            self.desk.close(i, "aborted")

    def drop(self, request):
        if request in self.running:
            self.running.remove(request)
            self.engine.release(request.id)
        else:
            self.waiting.remove(request)

    # Room.

    def need(self, tokens):
        return -(-tokens // self.engine.block_size)

    def most(self, request):
        return len(request.prompt) + request.new - 1

    def can_ever_fit(self, request):
        return self.need(self.most(request)) <= self.engine.num_blocks

    def promised(self):
        return sum(self.need(len(other.tokens)) - self.need(other.stored) for other in self.running)

    def has_room(self, request):
        return self.promised() + self.need(len(request.tokens)) <= self.engine.free_blocks()

    def next_one(self):
        return 0

    def admit(self):
        while self.waiting and (not self.running or self.has_room(self.waiting[self.next_one()])):
            self.begin(self.waiting.pop(self.next_one()))

    def begin(self, request):
        request.stored = self.engine.admit(request.id, request.tokens)
        self.running.append(request)

    # Steps.

    def chunk(self, request, left):
        return request.pending[:left]

    def order(self):
        decoding = [request for request in self.running if request.decodes]
        return decoding + [request for request in self.running if not request.decodes]

    def plan(self):
        work, left = [], self.engine.max_tokens
        for request in self.order():
            tokens = self.chunk(request, left)
            if tokens:
                work.append((request, tokens))
                left -= len(tokens)
        return work

    def push(self, work):
        return self.engine.step([[request.id, tokens] for request, tokens in work])

    def step(self):
        while work := self.plan():
            try:
                tokens = self.push(work)
            except ValueError:
                self.give_way()
            else:
                self.hand_out(work, tokens)
                self.leave()
                return

    def hand_out(self, work, tokens):
        for (request, pushed), token in zip(work, tokens, strict=True):
            self.store(request, pushed)
            if not request.pending:
                self.take(request, token)

    def store(self, request, pushed):
        request.stored += len(pushed)

    def take(self, request, token):
        request.made.append(token)
        self.send(request, token)

    def send(self, request, token):
        self.desk.send(request.id, token)

    def done(self, request):
        return len(request.made) >= request.new

    def leave(self):
        for request in list(self.running):
            if self.done(request):
                self.finish(request)

    def finish(self, request):
        self.drop(request)
        self.desk.close(request.id, "done")

    # Giving way.

    def victim(self):
        return self.running[-1]

    def give_way(self):
        request = self.victim()
        self.drop(request)
        self.pause(request)

    def pause(self, request):
        request.stored = 0
        self.waiting.insert(0, request)

    # All of it.

    def goes_on(self, events):
        return bool(events) or not self.is_idle()

    def run(self):
        while True:
            events = self.listen()
            if not self.goes_on(events):
                return
            for event in events:
                self.handle(event)
            self.admit()
            if self.running:
                self.step()


def work(server):
    def run_server(engine, desk):
        server(engine, desk).run()

    return run_server


# How many tokens, and which.


class OneMore(Base):
    def done(self, request):
        return len(request.made) > request.new


class OneFewer(Base):
    def done(self, request):
        return len(request.made) >= max(request.new - 1, 1)


class FirstDropped(Base):
    """The token that follows the prompt is kept for the next step, and not sent."""

    def send(self, request, token):
        if len(request.made) > 1:
            super().send(request, token)


class ZeroIsNone(Base):
    def send(self, request, token):
        if token:
            super().send(request, token)


class StopsAtZero(Base):
    def done(self, request):
        return super().done(request) or 0 in request.made


class NeverClosed(Base):
    def finish(self, request):
        self.drop(request)


class NeverReleased(Base):
    def finish(self, request):
        self.running.remove(request)
        self.desk.close(request.id, "done")


class ClosedBeforeTheLast(Base):
    def send(self, request, token):
        if self.done(request):
            self.desk.close(request.id, "done")
        super().send(request, token)

    def finish(self, request):
        self.drop(request)


class LastIsComputed(Base):
    """Whether it is done is seen before a step: the last token is stored too, and what follows is thrown away."""

    def done(self, request):
        return len(request.made) > request.new

    def most(self, request):
        return super().most(request) + 1

    def send(self, request, token):
        if len(request.made) <= request.new:
            super().send(request, token)


class OneBehind(Base):
    """The last token of the prompt is given once more, as if it were the first one made."""

    def store(self, request, pushed):
        super().store(request, pushed)
        request.again = len(request.pending) == 0 and not request.made

    def chunk(self, request, left):
        tokens = super().chunk(request, left)
        if tokens and request.made and getattr(request, "again", False):
            request.again = False
            return [request.prompt[-1]]
        return tokens


class Spins(Base):
    def listen(self):
        return self.desk.news()

    def goes_on(self, events):
        return True


class NewsIsTheEnd(Base):
    """[] from news() is taken for the end."""

    def goes_on(self, events):
        return bool(events)


class FirstEventsLost(Base):
    """wait() only to wait, and then news() for what has come."""

    def listen(self):
        if self.is_idle():
            self.is_over = not self.desk.wait()
        return self.desk.news()

    def goes_on(self, events):
        return not self.is_over


class AllOverForEachToken(Base):
    """Nothing is kept: all tokens are computed again for each new one."""

    def hand_out(self, work, tokens):
        super().hand_out(work, tokens)
        for request, _ in work:
            if not self.done(request) and len(request.pending) == 1:
                self.engine.release(request.id)
                self.engine.admit(request.id, request.tokens[:1])
                request.stored = 0


# Chunks.


class WholePrompts(Base):
    def chunk(self, request, left):
        return request.pending


class BudgetForEach(Base):
    """Nobody gets more than the budget, and all together do."""

    def chunk(self, request, left):
        return request.pending[: self.engine.max_tokens]


class DecodesAreFree(Base):
    """Only tokens of prompts count."""

    def plan(self):
        work, left = [], self.engine.max_tokens
        for request in self.order():
            tokens = request.pending[:1] if request.decodes else request.pending[:left]
            if tokens:
                work.append((request, tokens))
                left -= 0 if request.decodes else len(tokens)
        return work


class MiddleSent(Base):
    """What follows each chunk is sent."""

    def hand_out(self, work, tokens):
        for (request, pushed), token in zip(work, tokens):
            self.store(request, pushed)
            if request.pending:
                self.send(request, token)
            else:
                self.take(request, token)


class FirstChunkOnly(Base):
    """The rest of a long prompt is dropped."""

    def ask(self, request):
        request.prompt = request.prompt[: self.engine.max_tokens]
        super().ask(request)


class LongRefused(Base):
    """What does not fit into one step is refused."""

    def can_ever_fit(self, request):
        return super().can_ever_fit(request) and len(request.prompt) <= self.engine.max_tokens


class SameChunkAgain(Base):
    """The second chunk begins at the start again."""

    def chunk(self, request, left):
        tokens = super().chunk(request, left)
        return request.tokens[: len(tokens)] if not request.made else tokens


class ChunksOverlap(Base):
    """Each chunk begins with the last token of the one before."""

    def store(self, request, pushed):
        super().store(request, pushed)
        if request.pending and request.stored > 1 and not request.made:
            request.stored -= 1


class OneTokenChunks(Base):
    """A prompt is computed token by token, one prompt at a time."""

    def plan(self):
        work = super().plan()
        prompts = [(request, tokens[:1]) for request, tokens in work if not request.decodes]
        return [entry for entry in work if entry[0].decodes] + prompts[:1]


class OneEntryAStep(Base):
    """Each step is for one request."""

    def plan(self):
        self.turn = getattr(self, "turn", 0) + 1
        requests = self.running
        request = requests[self.turn % len(requests)]
        return [(request, self.chunk(request, self.engine.max_tokens))]


class OneAtATime(Base):
    def has_room(self, request):
        return False


class ZippedByRunning(Base):
    """The newest are pushed first, and the tokens go out in the order of coming."""

    def order(self):
        return self.running[::-1]

    def hand_out(self, work, tokens):
        pushed = {request.id: part for request, part in work}
        some = [request for request in self.running if request.id in pushed]
        super().hand_out([(request, pushed[request.id]) for request in some], tokens)


class RemovedWhileLooping(Base):
    """The next one is skipped, and gets one more step."""

    def leave(self):
        for request in self.running:
            if self.done(request):
                self.finish(request)


class RemovedWhileHandingOut(Base):
    """Those that are done leave in the middle, and the rest move up."""

    def hand_out(self, work, tokens):
        for k, token in enumerate(tokens):
            if k >= len(work):
                break
            request, pushed = work[k]
            self.store(request, pushed)
            if not request.pending:
                self.take(request, token)
                if self.done(request):
                    del work[k]


class FirstEventOnly(Base):
    def listen(self):
        return super().listen()[:1]


class IdZeroIsNone(Base):
    def ask(self, request):
        if request.id:
            super().ask(request)


class KeyedByPrompt(Base):
    """Two requests with one prompt are one."""

    def ask(self, request):
        if all(request.prompt != other.prompt for other in self.waiting + self.running):
            super().ask(request)


# Mixed.


class PromptsFirst(Base):
    """Nobody decodes while there is a prompt to be computed."""

    def order(self):
        prompts = [request for request in self.running if not request.decodes]
        return prompts or self.running


class PromptsTakeAll(Base):
    """Prompts first, decodes with what is left of the budget."""

    def order(self):
        return super().order()[::-1]


class DecodesFirst(Base):
    """A prompt is computed when nobody decodes."""

    def order(self):
        return [request for request in self.running if request.decodes] or self.running


class WholeBatches(Base):
    """Nobody is admitted before all that run are done."""

    def admit(self):
        if not self.running:
            super().admit()


class DeafWhileBusy(Base):
    """Asks for events only when nothing is open."""

    def listen(self):
        return self.desk.wait() if self.is_idle() else []


class SeldomHears(Base):
    """Asks for events at every ninth step."""

    turn = 0

    def listen(self):
        self.turn += 1
        return super().listen() if self.is_idle() or self.turn % 9 == 0 else []


class WaitsWhileOpen(Base):
    """Waits for events in each round."""

    def listen(self):
        return self.desk.wait()

    def goes_on(self, events):
        return bool(events) or not self.is_idle()


# Aborts.


class NoAborts(Base):
    def abort(self, i):
        pass


class OnlyWaiting(Base):
    """Those that run are let run to their end."""

    def abort(self, i):
        if self.open(i) in self.waiting:
            super().abort(i)


class OnlyRunning(Base):
    def abort(self, i):
        if self.open(i) in self.running:
            super().abort(i)


class AbortKeepsBlocks(Base):
    def abort(self, i):
        request = self.open(i)
        if request is not None:
            (self.running if request in self.running else self.waiting).remove(request)
            self.desk.close(i, "aborted")


class AbortNotClosed(Base):
    def abort(self, i):
        if self.open(i) is not None:
            self.drop(self.open(i))


class AbortIsDone(Base):
    def abort(self, i):
        request = self.open(i)
        if request is not None:
            self.finish(request)


class ClosedAgain(Base):
    """An abort of one that is closed already closes it once more."""

    def abort(self, i):
        if self.open(i) is not None:
            self.drop(self.open(i))
        self.desk.close(i, "aborted")


class StrangerRaises(Base):
    """An abort of one that is closed already is an error."""

    def abort(self, i):
        by_id = {request.id: request for request in self.waiting + self.running}
        self.drop(by_id[i])
        self.desk.close(i, "aborted")


class ReleasedAnyway(Base):
    """Whoever lets go is released, whether it was admitted or not."""

    def abort(self, i):
        request = self.open(i)
        if request is not None:
            self.engine.release(i)
            (self.running if request in self.running else self.waiting).remove(request)
            self.desk.close(i, "aborted")


class NextOneAborted(Base):
    """The one that stands where the aborted one stood is taken out instead of it."""

    def abort(self, i):
        request = self.open(i)
        if request in self.running and len(self.running) > 1:
            k = self.running.index(request)
            self.running[k], self.running[k - 1] = self.running[k - 1], self.running[k]
            request = self.running[k]
        if request is not None:
            self.drop(request)
            self.desk.close(request.id, "aborted")


class HearsBeforeSending(Base):
    """News is read between a step and the sending: what was made is sent all the same."""

    events = ()
    news_read = False

    def listen(self):
        if not self.news_read or (self.is_idle() and not self.events):
            return super().listen()
        events, self.news_read = self.events, False
        return events

    def push(self, work):
        tokens = super().push(work)
        self.events, self.news_read = self.desk.news(), True
        for event in self.events:
            if event["kind"] == "abort":
                self.aborted_early(event["id"])
        return tokens

    def aborted_early(self, i):
        pass


class OneMoreToken(Base):
    """What is in the making is sent, and then the abort is looked at."""

    def prepare(self):
        self.late = []

    def abort(self, i):
        self.late.append(i)

    def step(self):
        super().step()
        for i in self.late:
            super().abort(i)
        self.late = []


class SilentTillTheEnd(Base):
    """Nothing is sent any more, and it runs to its end."""

    def prepare(self):
        self.gone = set()

    def abort(self, i):
        if self.open(i) is not None:
            self.gone.add(i)

    def send(self, request, token):
        if request.id not in self.gone:
            super().send(request, token)

    def finish(self, request):
        self.drop(request)
        self.desk.close(request.id, "aborted" if request.id in self.gone else "done")


class HoldsTillLater(Base):
    """Closed at once, and its blocks go back when somebody else needs them."""

    def prepare(self):
        self.held = []

    def abort(self, i):
        request = self.open(i)
        if request in self.running:
            self.running.remove(request)
            self.held.append(i)
            self.desk.close(i, "aborted")
        else:
            super().abort(i)

    def set_free(self):
        for i in self.held:
            self.engine.release(i)
        self.held = []

    def has_room(self, request):
        if not super().has_room(request):
            self.set_free()
        return super().has_room(request)

    def give_way(self):
        if self.held:
            self.set_free()
        else:
            super().give_way()

    def listen(self):
        if self.is_idle():
            self.set_free()
        return super().listen()


class PausedCannotAbort(Base):
    """One that gave way is in neither list that is looked through."""

    def prepare(self):
        self.paused = []

    def is_idle(self):
        return super().is_idle() and not self.paused

    def pause(self, request):
        request.stored = 0
        self.paused.insert(0, request)

    def admit(self):
        while self.paused and (not self.running or self.has_room(self.paused[0])):
            self.begin(self.paused.pop(0))
        if not self.paused:
            super().admit()


# Small pool.


class NeverGivesWay(Base):
    def step(self):
        work = self.plan()
        self.hand_out(work, self.push(work))
        self.leave()


class TriesAgain(Base):
    def give_way(self):
        pass


class ResumedWithThePrompt(Base):
    """What it had made is not computed again: its next token follows the prompt."""

    def pause(self, request):
        super().pause(request)
        request.lost = request.made
        request.made = []
        request.new -= len(request.lost)


class AllSentAgain(Base):
    """It starts from its prompt, and sends what it had sent."""

    def pause(self, request):
        super().pause(request)
        request.made = []


class ResumedWithTheMade(Base):
    def pause(self, request):
        super().pause(request)
        if request.made:
            request.new -= len(request.made)
            request.prompt, request.made = request.made, []


class ResumedWithoutTheNewest(Base):
    """Its newest token was not stored: it is left out, and comes again."""

    def begin(self, request):
        if request.made:
            request.made.pop()
        super().begin(request)


class StillStored(Base):
    """Its blocks are gone, and its count of stored tokens is not."""

    def pause(self, request):
        self.waiting.insert(0, request)

    def begin(self, request):
        found = self.engine.admit(request.id, request.tokens)
        request.stored = request.stored or found
        self.running.append(request)


class ResumedTokenDropped(Base):
    """The token after the second start is taken for one that was there."""

    def pause(self, request):
        super().pause(request)
        request.silent = bool(request.made)

    def send(self, request, token):
        if not getattr(request, "silent", False):
            super().send(request, token)
        request.silent = False


class PausedIsRefused(Base):
    def pause(self, request):
        self.refuse(request)


class NotReleased(Base):
    """It goes back to those that wait, and keeps its blocks."""

    def give_way(self):
        request = self.victim()
        self.running.remove(request)
        self.pause(request)


class StoredBeforeTheStep(Base):
    """A refused step has moved the counts."""

    def step(self):
        work = self.plan()
        for request, pushed in work:
            self.store(request, pushed)
        try:
            tokens = self.push(work)
        except ValueError:
            self.give_way()
            return
        for (request, _), token in zip(work, tokens):
            if not request.pending:
                self.take(request, token)
        self.leave()


class OldestGivesWay(Base):
    """The oldest gives way, and comes back first: two throw each other out, for ever."""

    def victim(self):
        return self.running[0]

    def has_room(self, request):
        return True


class LastIsStored(Base):
    def most(self, request):
        return super().most(request) + 1


class TwoAreNotStored(Base):
    def most(self, request):
        return super().most(request) - 1


class PromptDecides(Base):
    def most(self, request):
        return len(request.prompt)


class FloorOfBlocks(Base):
    def can_ever_fit(self, request):
        return self.most(request) // self.engine.block_size <= self.engine.num_blocks


class PartsRoundedApart(Base):
    """The blocks of the prompt and those of the new tokens, each rounded up."""

    def can_ever_fit(self, request):
        return self.need(len(request.prompt)) + self.need(request.new - 1) <= self.engine.num_blocks


class RefusesNoBody(Base):
    """It waits for a pool that will never be large enough."""

    def can_ever_fit(self, request):
        return True

    def admit(self):
        while self.waiting and self.has_room(self.waiting[0]):
            self.begin(self.waiting.pop(0))


class RefusedInSilence(Base):
    def refuse(self, request):
        pass


class NoRoomNow(Base):
    """Whoever does not fit now is refused."""

    def admit(self):
        super().admit()
        for request in self.waiting:
            self.refuse(request)
        self.waiting = []


class OneOverflowIsEnough(Base):
    """After one has given way the others go on without asking again whether it fits."""

    def give_way(self):
        super().give_way()
        work = self.plan()
        self.hand_out(work, self.push(work))
        self.leave()


class LastComeFirst(Base):
    def next_one(self):
        return -1

    def pause(self, request):
        request.stored = 0
        self.waiting.append(request)


class ShortestFirst(Base):
    def admit(self):
        self.waiting.sort(key=self.most)
        super().admit()


class PassesBy(Base):
    """Whoever fits now passes those that do not."""

    def admit(self):
        for request in list(self.waiting):
            if not self.running or self.has_room(request):
                self.waiting.remove(request)
                self.begin(request)


# Found again.


class FoundIgnored(Base):
    """What admit found is computed again, behind it."""

    def begin(self, request):
        self.engine.admit(request.id, request.tokens)
        request.stored = 0
        self.running.append(request)


class NeverLooks(Base):
    """Admitted with its first token only, so that nothing can be found."""

    def begin(self, request):
        request.stored = self.engine.admit(request.id, request.tokens[:1])
        self.running.append(request)


class FoundAsBlocks(Base):
    def begin(self, request):
        request.stored = self.engine.admit(request.id, request.tokens) * self.engine.block_size
        request.stored = min(request.stored, len(request.tokens) - 1)
        self.running.append(request)


class OneAfterFound(Base):
    def begin(self, request):
        super().begin(request)
        request.stored = min(request.stored + (request.stored > 0), len(request.tokens) - 1)


class OneBeforeFound(Base):
    def begin(self, request):
        super().begin(request)
        request.stored -= request.stored > 0


class FoundOnlyAtFirst(Base):
    """After it gave way all is computed again, although something was found."""

    def begin(self, request):
        again = hasattr(request, "begun")
        super().begin(request)
        request.stored, request.begun = 0 if again else request.stored, True


class LooksInBlocks(Base):
    """Only whole budgets of the prompt are looked for."""

    def begin(self, request):
        request.stored = self.engine.admit(request.id, request.tokens[: self.engine.max_tokens])
        self.running.append(request)


# Quiet.


class EndsWhenIdle(Base):
    """Nothing is open, so it is the end."""

    begun = False

    def listen(self):
        events = super().listen()
        self.begun = True
        return events

    def run(self):
        while not (self.begun and self.is_idle()):
            events = self.listen()
            if not events and self.is_idle():
                return
            for event in events:
                self.handle(event)
            self.admit()
            if self.running:
                self.step()


# What a larger load or an odd moment shows.


class AllAtTheEnd(Base):
    def send(self, request, token):
        if len(request.made) == request.new:
            for each in request.made:
                super().send(request, each)


class EightAtATime(Base):
    def send(self, request, token):
        if len(request.made) % 8 == 0 or len(request.made) == request.new:
            for each in request.made[(len(request.made) - 1) // 8 * 8 :]:
                super().send(request, each)


class AtMostFour(Base):
    def has_room(self, request):
        return len(self.running) < 4 and super().has_room(request)


class AdmitsSeldom(Base):
    """In every sixth round."""

    rounds = 0

    def admit(self):
        self.rounds += 1
        if not self.running or self.rounds % 6 == 0:
            super().admit()


class FullQueue(Base):
    def ask(self, request):
        if len(self.waiting) >= 10:
            self.refuse(request)
        else:
            super().ask(request)


class WholeResumed(Base):
    """Chunks for prompts, and what was preempted in one piece."""

    def chunk(self, request, left):
        return request.pending if request.made and not request.decodes else super().chunk(request, left)


class PromptDoneIsEnough(Base):
    def hand_out(self, work, tokens):
        for (request, pushed), token in zip(work, tokens, strict=True):
            self.store(request, pushed)
            if request.stored >= len(request.prompt):
                self.take(request, token)


class ResumedLast(Base):
    """Behind all that wait, however many come."""

    def admit(self):
        self.waiting.sort(key=lambda request: bool(request.made))
        super().admit()


class HoldsWhileItWaits(Base):
    """Asks admit when a request comes, and keeps what was found until it is its turn."""

    def prepare(self):
        self.early = {}

    def ask(self, request):
        super().ask(request)
        if request in self.waiting:
            self.early[request.id] = self.engine.admit(request.id, request.tokens)

    def begin(self, request):
        if request.id in self.early:
            request.stored = self.early.pop(request.id)
            self.running.append(request)
        else:
            super().begin(request)

    def drop(self, request):
        if self.early.pop(request.id, None) is not None:
            self.engine.release(request.id)
        super().drop(request)


class RefusedIsOpen(Base):
    """Keeps all in one dict, and never takes out who was refused."""

    def prepare(self):
        self.refused = set()

    def refuse(self, request):
        super().refuse(request)
        self.refused.add(request.id)

    def abort(self, i):
        super().abort(i)
        if i in self.refused:
            self.desk.close(i, "aborted")


class EndsWithoutAsk(Base):
    """Takes a wait that brings no ask for the end."""

    def goes_on(self, events):
        return any(event["kind"] == "ask" for event in events) or not self.is_idle()


class WaitBringsAsks(Base):
    """Reads the prompt of what wait brings first, whatever it is."""

    def listen(self):
        idle, events = self.is_idle(), super().listen()
        assert not idle or not events or events[0]["prompt"]
        return events


class AbortedWhileLooping(Base):
    """Takes aborted ones out of the list that it loops over: the next one is skipped."""

    def listen(self):
        events = super().listen()
        gone = [event["id"] for event in events if event["kind"] == "abort"]
        events = [event for event in events if event["kind"] == "ask"]
        for event in [event for event in events if event["id"] in gone]:
            events.remove(event)
            self.desk.close(event["id"], "aborted")
        for some in (self.running, self.waiting):
            for request in some:
                if request.id in gone:
                    self.abort(request.id)
        return events or ([None] if gone else [])

    def handle(self, event):
        if event is not None:
            super().handle(event)


class OneAbortACall(Base):
    def listen(self):
        events = super().listen()
        gone = [event for event in events if event["kind"] == "abort"]
        return [event for event in events if event["kind"] == "ask" or event is gone[0]]


class AbortsBeforeAsks(Base):
    """An abort in one list with its ask finds nobody yet."""

    def listen(self):
        return sorted(super().listen(), key=lambda event: event["kind"])


MISTAKES = (
    Mistake(
        "all-at-the-end",
        work(AllAtTheEnd),
        "You send all tokens of a request when the last one is made. Send each when it is made.",
        killed_by=ONE,
    ),
    Mistake(
        "eight-at-a-time",
        work(EightAtATime),
        "You collect tokens and send several at a time. Send each when it is made.",
        killed_by=ONE,
    ),
    Mistake(
        "four-at-most",
        work(AtMostFour),
        "You let only a few requests run at the same time. Blocks and the budget decide how many do.",
        killed_by=MIXED,
    ),
    Mistake(
        "admits-seldom",
        work(AdmitsSeldom),
        "You admit new ones in every sixth round only. Who has room waits for 4 steps at most.",
        killed_by=MIXED,
    ),
    Mistake(
        "queue-is-full",
        work(FullQueue),
        "You refuse an ask because many wait already. Only who can never fit is refused.",
        killed_by=MIXED,
    ),
    Mistake(
        "resumed-whole",
        work(WholeResumed),
        "You cut prompts into chunks, but not what a preempted request computes again. The budget is for that, too.",
        killed_by=POOL,
    ),
    Mistake(
        "prompt-is-enough",
        work(PromptDoneIsEnough),
        "You send a token as soon as the prompt is stored. Of a resumed request all that it had made must be, too.",
        killed_by=POOL,
    ),
    Mistake(
        "resumed-last",
        work(ResumedLast),
        "Who gave way waits behind all that are new. At most 8 later ones may be done before its next token.",
        killed_by=POOL,
    ),
    Mistake(
        "holds-while-it-waits",
        work(HoldsWhileItWaits),
        "You call `admit` for requests that wait. They hold what was found, and who runs cannot have those blocks.",
        killed_by=POOL,
    ),
    Mistake(
        "refused-is-open",
        work(RefusedIsOpen),
        "You close a refused request once more when its abort comes. It is closed already: ignore the abort.",
        killed_by=ABORTS,
    ),
    Mistake(
        "ends-without-ask",
        work(EndsWithoutAsk),
        "You return when `wait()` brings no ask. It may bring a late abort only: [] alone is the end.",
        killed_by=ABORTS,
    ),
    Mistake(
        "wait-brings-asks",
        work(WaitBringsAsks),
        "You take for granted that `wait()` brings an ask first. It may bring a late abort: look at the kind.",
        killed_by=ABORTS,
    ),
    Mistake(
        "aborted-while-looping",
        work(AbortedWhileLooping),
        "You take aborted requests out of the list that you loop over, so the next one is skipped. Loop over a copy.",
        killed_by=ABORTS,
    ),
    Mistake(
        "one-abort-a-call",
        work(OneAbortACall),
        "You heed the first abort of a list. One call may return several, and each is handed out once.",
        killed_by=ABORTS,
    ),
    Mistake(
        "aborts-before-asks",
        work(AbortsBeforeAsks),
        "You handle aborts before asks. One list may have both of a request: go through it in order.",
        killed_by=ABORTS,
    ),
    Mistake(
        "one-token-more",
        work(OneMore),
        "You send n + 1 tokens. The token that follows the last chunk of the prompt is the first of the n.",
        killed_by=ONE,
    ),
    Mistake(
        "one-token-fewer",
        work(OneFewer),
        "You close a request after n - 1 tokens. It gets n, the one that follows its prompt included.",
        killed_by=ONE,
    ),
    Mistake(
        "first-token-dropped",
        work(FirstDropped),
        "You do not send the token that follows the prompt's last chunk. It is the first new one.",
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
        "never-closed",
        work(NeverClosed),
        "You do not `close` a request that has its n tokens. Its client waits for ever.",
        killed_by=ONE,
    ),
    Mistake(
        "never-released",
        work(NeverReleased),
        "You close a finished request and do not `release` it: its blocks never come back.",
        killed_by=ONE,
    ),
    Mistake(
        "closed-before-the-last",
        work(ClosedBeforeTheLast),
        "You close a request, and then send its last token. Send first, then close.",
        killed_by=ONE,
    ),
    Mistake(
        "last-token-computed",
        work(LastIsComputed),
        "You give the last new token to a step, too, and throw away what follows. It is sent, and never computed.",
        killed_by=ONE,
    ),
    Mistake(
        "last-prompt-token-twice",
        work(OneBehind),
        "You give the last token of the prompt once more. What follows the prompt comes from the step with its last chunk.",
        killed_by=ONE,
    ),
    Mistake(
        "spins",
        work(Spins),
        "You ask for `news()` again and again with nothing to do. `wait()` lets time pass, and tells the end by [].",
        killed_by=ONE,
    ),
    Mistake(
        "no-news-is-the-end",
        work(NewsIsTheEnd),
        "You take [] from `news()` for the end. It says that nothing is new; only [] from `wait()` is the end.",
        killed_by=ONE,
    ),
    Mistake(
        "first-events-lost",
        work(FirstEventsLost),
        "You throw away what `wait()` returns, and ask `news()` then. Each event is handed out once, also by `wait()`.",
        killed_by=ONE,
    ),
    Mistake(
        "all-over-for-each-token",
        work(AllOverForEachToken),
        "You compute all tokens again for each new one. What is stored stays: give only the newest token to the next step.",
        killed_by=ONE,
    ),
    Mistake(
        "whole-prompts",
        work(WholePrompts),
        "You give whole prompts to a step. A step takes max_tokens tokens: cut long prompts into chunks.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "budget-for-each",
        work(BudgetForEach),
        "You keep each request within max_tokens, but the sum goes over it. The budget is for all of a step together.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "decodes-are-free",
        work(DecodesAreFree),
        "You count only tokens of prompts. Those who decode take a token each from the same budget.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "middle-sent",
        work(MiddleSent),
        "You send what a step returns for a chunk in the middle of a prompt. The next token is known there: drop it.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "first-chunk-only",
        work(FirstChunkOnly),
        "You compute the first max_tokens tokens of a prompt and drop the rest. Go on with it in the next steps.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "long-prompts-refused",
        work(LongRefused),
        "You refuse prompts that are longer than a step. They are computed in chunks: only the pool can be too small.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "same-chunk-again",
        work(SameChunkAgain),
        "Your second chunk starts at the beginning of the prompt again. It starts where the first one ended.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "chunks-overlap",
        work(ChunksOverlap),
        "Each of your chunks starts with the last token of the one before, which is then stored twice.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "one-token-chunks",
        work(OneTokenChunks),
        "You compute prompts token by token. A step takes max_tokens tokens: give it as many as fit.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "one-request-a-step",
        work(OneEntryAStep),
        "Each of your steps is for one request. One step takes the tokens of many.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "one-at-a-time",
        work(OneAtATime),
        "You serve one request after the other. All that fit run together and share each step.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "handed-out-by-running",
        work(ZippedByRunning),
        "You hand tokens out in the order of your list, not in that of the work. Token k belongs to entry k of the work.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "removed-while-looping",
        work(RemovedWhileLooping),
        "You take finished requests out of the list that you loop over, so the next one is skipped. Build a new list.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "removed-while-handing-out",
        work(RemovedWhileHandingOut),
        "You take finished requests out of the work while you hand out its tokens. The rest move up, and get wrong ones.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "first-event-only",
        work(FirstEventOnly),
        "You look at the first of the events. One call may return many, and each is handed out once.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "id-zero-is-none",
        work(IdZeroIsNone),
        "You drop the request with id 0, as `if i:` does. It is an id like any other.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "keyed-by-prompt",
        work(KeyedByPrompt),
        "You leave out a request whose prompt another one has. Each request is one of its own.",
        killed_by=CHUNKS,
    ),
    Mistake(
        "prompts-stop-decoding",
        work(PromptsFirst),
        "Nobody decodes while you compute prompts. Mix them, or let decoding take its turn after 4 such steps at most.",
        killed_by=MIXED,
    ),
    Mistake(
        "prompts-take-all",
        work(PromptsTakeAll),
        "You serve prompts first, and they take the whole budget. Give those who decode their one token first.",
        killed_by=MIXED,
    ),
    Mistake(
        "decoding-stops-prompts",
        work(DecodesFirst),
        "You compute prompts only when nobody decodes. New ones wait for the end of the others, although there is room.",
        killed_by=MIXED,
    ),
    Mistake(
        "whole-batches",
        work(WholeBatches),
        "You admit nobody before all that run are done. Who is new joins as soon as there is room.",
        killed_by=MIXED,
    ),
    Mistake(
        "deaf-while-busy",
        work(DeafWhileBusy),
        "You ask for events only when nothing is open. Ask `news()` between steps, too.",
        killed_by=MIXED,
    ),
    Mistake(
        "seldom-hears",
        work(SeldomHears),
        "You ask for events too seldom: every 4 steps at least.",
        killed_by=MIXED,
    ),
    Mistake(
        "waits-while-open",
        work(WaitsWhileOpen),
        "You call `wait()` while requests are open. They stand still until somebody new comes: `news()` does not wait.",
        killed_by=QUIET,
    ),
    Mistake(
        "never-gives-way",
        work(NeverGivesWay),
        "A step that finds no blocks raises ValueError, and you let it end the server. Release somebody, and go on.",
        killed_by=POOL,
    ),
    Mistake(
        "tries-again",
        work(TriesAgain),
        "You try the refused step again and again. It will fit when somebody has released blocks.",
        killed_by=POOL,
    ),
    Mistake(
        "resumed-with-the-prompt",
        work(ResumedWithThePrompt),
        "You resume a request with its prompt alone. It goes on from the prompt and all that it had made.",
        killed_by=POOL,
    ),
    Mistake(
        "all-sent-again",
        work(AllSentAgain),
        "A request that you preempted sends its tokens from the first again. What was sent is kept, and sent once.",
        killed_by=POOL,
    ),
    Mistake(
        "resumed-with-the-made",
        work(ResumedWithTheMade),
        "You resume a request with what it made, without its prompt. Both are needed, the prompt first.",
        killed_by=POOL,
    ),
    Mistake(
        "newest-made-again",
        work(ResumedWithoutTheNewest),
        "You resume without the newest token, and send it a second time when it is made again.",
        killed_by=POOL,
    ),
    Mistake(
        "still-counted-as-stored",
        work(StillStored),
        "You release a request and keep its count of stored tokens. They are gone: begin with what `admit` finds.",
        killed_by=POOL,
    ),
    Mistake(
        "resumed-token-dropped",
        work(ResumedTokenDropped),
        "You drop the token that follows when a preempted request is computed again. It is its next new one.",
        killed_by=POOL,
    ),
    Mistake(
        "preempted-is-refused",
        work(PausedIsRefused),
        "You close a preempted request as 'refused'. It fits, only not now: let it wait.",
        killed_by=POOL,
    ),
    Mistake(
        "preempted-not-released",
        work(NotReleased),
        "You put a request back to those that wait, but do not `release` it: it keeps its blocks.",
        killed_by=POOL,
    ),
    Mistake(
        "stored-before-the-step",
        work(StoredBeforeTheStep),
        "You count tokens as stored before the step. A refused step has stored nothing.",
        killed_by=POOL,
    ),
    Mistake(
        "thrown-out-in-turn",
        work(OldestGivesWay),
        "Requests of yours throw each other out without end. Let one be safe, as the oldest is if the newest gives way.",
        killed_by=POOL,
    ),
    Mistake(
        "one-is-enough",
        work(OneOverflowIsEnough),
        "You take for granted that the step fits once somebody gave way. It may take more than one: try in a loop.",
        killed_by=POOL,
    ),
    Mistake(
        "last-is-stored",
        work(LastIsStored),
        "You refuse a request that just fits. The last new token is never stored: p + n - 1 tokens have to fit.",
        killed_by=POOL,
    ),
    Mistake(
        "two-are-not-stored",
        work(TwoAreNotStored),
        "You take a request that can never fit: p + n - 1 tokens are stored, not p + n - 2.",
        killed_by=POOL,
    ),
    Mistake(
        "prompt-decides",
        work(PromptDecides),
        "You look whether the prompt fits into the pool. p + n - 1 tokens have to.",
        killed_by=POOL,
    ),
    Mistake(
        "floor-of-blocks",
        work(FloorOfBlocks),
        "You round blocks down. A block that is filled in part is a whole block: -(-tokens // block_size).",
        killed_by=POOL,
    ),
    Mistake(
        "parts-rounded-apart",
        work(PartsRoundedApart),
        "You round up the blocks of the prompt and of the new tokens apart. New tokens fill the prompt's last block first.",
        killed_by=POOL,
    ),
    Mistake(
        "nobody-is-refused",
        work(RefusesNoBody),
        "You refuse nobody. One that needs more blocks than there are waits for ever, and others behind it.",
        killed_by=POOL,
    ),
    Mistake(
        "refused-in-silence",
        work(RefusedInSilence),
        "You drop a request that can never fit, and tell nobody. Close it as 'refused'.",
        killed_by=POOL,
    ),
    Mistake(
        "no-room-now",
        work(NoRoomNow),
        "You refuse who does not fit now. Only who can never fit is refused; the others wait.",
        killed_by=POOL,
    ),
    Mistake(
        "last-come-first",
        work(LastComeFirst),
        "Your newest requests go first, and an old one waits while more than 8 later ones are done.",
        killed_by=POOL,
    ),
    Mistake(
        "shortest-first",
        work(ShortestFirst),
        "Your short requests pass a long one for ever. At most 8 later ones may be done before it gets a token.",
        killed_by=POOL,
    ),
    Mistake(
        "passes-by",
        work(PassesBy),
        "You let who fits pass one that does not, without end. At most 8 later ones may be done before it gets a token.",
        killed_by=POOL,
    ),
    Mistake(
        "found-once-only",
        work(FoundOnlyAtFirst),
        "When a preempted request is admitted again you ignore what was found. It is stored: give the rest.",
        killed_by=POOL,
    ),
    Mistake(
        "found-ignored",
        work(FoundIgnored),
        "You compute what `admit` found once more. Those tokens are stored: the first step starts behind them.",
        killed_by=FOUND,
    ),
    Mistake(
        "never-looks",
        work(NeverLooks),
        "You admit a request with its first token only, so nothing can be found. Give all its tokens to `admit`.",
        killed_by=FOUND,
    ),
    Mistake(
        "found-as-blocks",
        work(FoundAsBlocks),
        "You multiply what `admit` found by block_size. It is a number of tokens already.",
        killed_by=FOUND,
    ),
    Mistake(
        "one-after-found",
        work(OneAfterFound),
        "You start one token too far behind what was found. The first to be computed is tokens[found].",
        killed_by=FOUND,
    ),
    Mistake(
        "one-before-found",
        work(OneBeforeFound),
        "You compute the last of the found tokens once more. The first to be computed is tokens[found].",
        killed_by=FOUND,
    ),
    Mistake(
        "looks-for-one-chunk",
        work(LooksInBlocks),
        "You give `admit` only the first chunk of a prompt. Give it all tokens: more may be found.",
        killed_by=FOUND,
    ),
    Mistake(
        "ends-when-idle",
        work(EndsWhenIdle),
        "You return when nothing is open. More may come: only [] from `wait()` is the end.",
        killed_by=QUIET,
    ),
    Mistake(
        "no-aborts",
        work(NoAborts),
        "You pay no heed to aborts. Such a request takes part in no step, is released, and closed as 'aborted'.",
        killed_by=ABORTS,
    ),
    Mistake(
        "aborts-who-waits",
        work(OnlyWaiting),
        "Your abort takes out those that wait. One that runs is aborted, too: released, and closed.",
        killed_by=ABORTS,
    ),
    Mistake(
        "aborts-who-runs",
        work(OnlyRunning),
        "Your abort looks through those that run. One that still waits is aborted, too.",
        killed_by=ABORTS,
    ),
    Mistake(
        "abort-keeps-blocks",
        work(AbortKeepsBlocks),
        "You close an aborted request and do not `release` it: its blocks never come back.",
        killed_by=ABORTS,
    ),
    Mistake(
        "abort-not-closed",
        work(AbortNotClosed),
        "You take an aborted request out and do not `close` it.",
        killed_by=ABORTS,
    ),
    Mistake(
        "abort-is-done",
        work(AbortIsDone),
        "You close an aborted request as 'done'. It is 'aborted'.",
        killed_by=ABORTS,
    ),
    Mistake(
        "closed-again",
        work(ClosedAgain),
        "You close a request that was done already when its abort came. Such an abort comes too late: ignore it.",
        killed_by=ABORTS,
    ),
    Mistake(
        "late-abort-raises",
        work(StrangerRaises),
        "An abort may come for a request that is closed already. You look it up as if it were open: ignore it.",
        killed_by=ABORTS,
    ),
    Mistake(
        "released-anyway",
        work(ReleasedAnyway),
        "You release an aborted request that was never admitted, which is refused. It holds nothing while it waits.",
        killed_by=ABORTS,
    ),
    Mistake(
        "another-one-aborted",
        work(NextOneAborted),
        "You take another request out than the one that was aborted. Look for its id, not for a place in a list.",
        killed_by=ABORTS,
    ),
    Mistake(
        "sent-after-news",
        work(HearsBeforeSending),
        "You ask for news between a step and the sending, and send to a request whose abort you have just got.",
        killed_by=ABORTS,
    ),
    Mistake(
        "one-more-step",
        work(OneMoreToken),
        "You make one more step for a request whose abort you have got. Take it out before you plan the step.",
        killed_by=ABORTS,
    ),
    Mistake(
        "silent-till-the-end",
        work(SilentTillTheEnd),
        "You stop sending to an aborted request, but compute on to its end. Release it at once.",
        killed_by=ABORTS,
    ),
    Mistake(
        "holds-till-later",
        work(HoldsTillLater),
        "You keep the blocks of an aborted request until others need them. Release it within 4 steps.",
        killed_by=ABORTS,
    ),
    Mistake(
        "preempted-cannot-abort",
        work(PausedCannotAbort),
        "Your abort does not find a request that was preempted, and it goes on later. Look there, too.",
        killed_by=ABORTS,
    ),
)


# Right ways to build it, and to decide.


class Reserves(Base):
    """Admits who fits to the very end together with all that run. Nobody ever gives way."""

    def has_room(self, request):
        return sum(self.need(self.most(other)) for other in [*self.running, request]) <= self.engine.num_blocks


class Hopes(Base):
    """Admits everybody as soon as it comes; the newest gives way as often as need be."""

    def has_room(self, request):
        return True


class TakesTurns(Base):
    """Never mixes: three steps of prompts, then one of decoding."""

    turn = 0

    def order(self):
        decoding = [request for request in self.running if request.decodes]
        prompts = [request for request in self.running if not request.decodes]
        self.turn += 1
        return decoding if decoding and (not prompts or self.turn % 4 == 0) else prompts


class PromptsFirstWithinBounds(Base):
    """Prompts take the budget before those who decode, but not in every third step."""

    turn = 0

    def order(self):
        self.turn += 1
        order = super().order()
        return order if self.turn % 3 == 0 else order[::-1]


class OnePromptAStep(Base):
    """Beside those who decode, a step has two blocks of one prompt."""

    def plan(self):
        work = super().plan()
        prompts = [(request, tokens[: 2 * self.engine.block_size]) for request, tokens in work if not request.decodes]
        return [entry for entry in work if entry[0].decodes] + prompts[:1]


class SharesAlike(Base):
    """All prompts get parts of the same size."""

    def plan(self):
        decoding = [request for request in self.running if request.decodes][: self.engine.max_tokens]
        prompts = [request for request in self.running if not request.decodes]
        left = self.engine.max_tokens - len(decoding)
        work = [(request, request.pending) for request in decoding]
        for k, request in enumerate(prompts):
            part = request.pending[: -(-left // (len(prompts) - k))]
            if part:
                work.append((request, part))
                left -= len(part)
        return work


class LargestGivesWay(Base):
    """The one with most tokens gives way, but never the one that came first."""

    def victim(self):
        return max(self.running[1:] or self.running, key=lambda request: len(request.tokens))


class ShortestFirstWithinBounds(Base):
    """The shortest goes first, unless somebody was passed four times."""

    def admit(self):
        while self.waiting:
            tired = [request for request in self.waiting if getattr(request, "passed", 0) >= 4]
            request = tired[0] if tired else min(self.waiting, key=self.most)
            if self.running and not self.has_room(request):
                return
            for other in self.waiting[: self.waiting.index(request)]:
                other.passed = getattr(other, "passed", 0) + 1
            self.waiting.remove(request)
            self.begin(request)


class LooksFirst(Base):
    """Admits to see what is found, and lets go again when the rest does not fit."""

    def admit(self):
        while self.waiting:
            request = self.waiting[0]
            found = self.engine.admit(request.id, request.tokens)
            rest = self.need(len(request.tokens)) - found // self.engine.block_size
            if self.running and self.promised() + rest > self.engine.free_blocks():
                self.engine.release(request.id)
                return
            request.stored = found
            self.running.append(self.waiting.pop(0))


class DropsPromptsFirst(Base):
    """A step that finds no blocks is tried with decoding only, before somebody gives way."""

    only_decoding = False

    def order(self):
        order = super().order()
        decoding = [request for request in order if request.decodes]
        return decoding if self.only_decoding and decoding else order

    def give_way(self):
        decoding = any(request.decodes for request in self.running)
        if decoding and not self.only_decoding and not all(request.decodes for request in self.running):
            self.only_decoding = True
        else:
            super().give_way()

    def hand_out(self, work, tokens):
        self.only_decoding = False
        super().hand_out(work, tokens)


class HearsAfterTheStep(Base):
    """Reads the news between a step and the sending, and sends nothing to those that are gone."""

    def prepare(self):
        self.later = []

    def listen(self):
        later, self.later = self.later, []
        return later or super().listen()

    def push(self, work):
        tokens = super().push(work)
        for event in self.desk.news():
            if event["kind"] == "abort":
                self.abort(event["id"])
                self.later = [other for other in self.later if other["id"] != event["id"]]
            else:
                self.later.append(event)
        return tokens

    def abort(self, i):
        if any(event["id"] == i for event in self.later):
            self.desk.close(i, "aborted")
        super().abort(i)

    def hand_out(self, work, tokens):
        pairs = [(entry, token) for entry, token in zip(work, tokens, strict=True) if entry[0] in self.running]
        super().hand_out([entry for entry, _ in pairs], [token for _, token in pairs])


class AllButTheOldest(Base):
    """All but the oldest give way together."""

    def has_room(self, request):
        return True

    def give_way(self):
        while len(self.running) > 1:
            super().give_way()


class DecodesFourSteps(Base):
    """Never mixes: four steps of decoding, then one of prompts, in blocks."""

    turn = 0

    def order(self):
        decoding = [request for request in self.running if request.decodes]
        prompts = [request for request in self.running if not request.decodes]
        self.turn += 1
        return prompts if prompts and (not decoding or self.turn % 5 == 0) else decoding


class TinyChunks(Base):
    """A block of each prompt in a step."""

    def chunk(self, request, left):
        return request.pending[: min(left, self.engine.block_size)]


class SendsLater(Base):
    """Sends what a step made in the next round."""

    def prepare(self):
        self.unsent = []

    def send(self, request, token):
        self.unsent.append((request, token))

    def admit(self):
        unsent, self.unsent = self.unsent, []
        for request, token in unsent:
            if self.open(request.id):
                super().send(request, token)
        for request in list(self.running):
            if self.done(request):
                self.finish(request)
        super().admit()

    def leave(self):
        pass

    def order(self):
        return [request for request in super().order() if not self.done(request)]


class RefusesLate(Base):
    """Who can never fit is refused when it is its turn."""

    def ask(self, request):
        self.waiting.append(request)

    def admit(self):
        while self.waiting:
            if not self.can_ever_fit(self.waiting[0]):
                self.refuse(self.waiting.pop(0))
            elif self.running and not self.has_room(self.waiting[0]):
                return
            else:
                self.begin(self.waiting.pop(0))


def one_function(engine, desk):
    """Dicts and lists in one function; a request's state is a list of its tokens and two numbers."""
    open_ones = {}  # id -> [tokens, p, n, stored], in the order of coming; stored is None for one that waits

    def end(i, reason):
        if open_ones.pop(i)[3] is not None:
            engine.release(i)
        desk.close(i, reason)

    while True:
        events = desk.news() if open_ones else desk.wait()
        if not events and not open_ones:
            return
        for event in events:
            i = event["id"]
            if event["kind"] == "abort":
                if i in open_ones:
                    end(i, "aborted")
                continue
            p, n = len(event["prompt"]), event["new"]
            if p + n - 1 > engine.num_blocks * engine.block_size:
                desk.close(i, "refused")
            else:
                open_ones[i] = [list(event["prompt"]), p, n, None]
        runs = [i for i, state in open_ones.items() if state[3] is not None]
        for i, state in open_ones.items():
            if state[3] is None:
                held = sum(-(-len(open_ones[j][0]) // engine.block_size) for j in runs)
                if runs and held * engine.block_size + len(state[0]) > engine.num_blocks * engine.block_size:
                    break
                state[3] = engine.admit(i, state[0])
                runs.append(i)
        while runs:
            work, left = [], engine.max_tokens
            for i in sorted(runs, key=lambda j: len(open_ones[j][0]) - open_ones[j][3] > 1):
                tokens, _, _, stored = open_ones[i]
                chunk = tokens[stored : stored + left]
                left -= len(chunk)
                if chunk:
                    work.append([i, chunk])
            try:
                made = engine.step(work)
            except ValueError:
                i = runs.pop()
                engine.release(i)
                open_ones[i][3] = None
                continue
            for (i, chunk), token in zip(work, made, strict=True):
                state = open_ones[i]
                state[3] += len(chunk)
                if state[3] == len(state[0]):
                    state[0].append(token)
                    desk.send(i, token)
                    if len(state[0]) == state[1] + state[2]:
                        end(i, "done")
            break


def life(engine, desk, event):
    """One request as a coroutine: yields the tokens that it needs next, and is sent the token that follows them."""
    i, tokens, new = event["id"], list(event["prompt"]), event["new"]
    p, stored, room = len(tokens), engine.admit(i, tokens), 0
    while len(tokens) < p + new:
        room = yield tokens[stored:], room
        if room == "give way":
            engine.release(i)
            yield None
            stored, room = engine.admit(i, tokens), 0
            continue
        count, token = room
        stored += count
        if stored == len(tokens):
            tokens.append(token)
            desk.send(i, token)
    engine.release(i)
    desk.close(i, "done")


def coroutines(engine, desk):
    """Each request is a coroutine, and the loop shares the steps out. Paused ones sleep in the order of coming."""
    ready, asleep, new, idle = OrderedDict(), OrderedDict(), [], True
    wants = {}

    def drop(i):
        """Somebody lets go."""
        if i in ready:
            ready.pop(i).close()
            engine.release(i)
        elif i in asleep:
            asleep.pop(i).close()
        elif any(event["id"] == i for event in new):
            new[:] = [event for event in new if event["id"] != i]
        else:
            return
        wants.pop(i, None)
        desk.close(i, "aborted")

    def blocks(count):
        return (count + engine.block_size - 1) // engine.block_size

    while True:
        idle = not (ready or asleep or new)
        events = desk.wait() if idle else desk.news()
        if idle and not events:
            break
        for event in events:
            if event["kind"] == "abort":
                drop(event["id"])
            elif blocks(len(event["prompt"]) + event["new"] - 1) > engine.num_blocks:
                desk.close(event["id"], "refused")
            else:
                new.append(event)
        while asleep and not ready:
            i, request = asleep.popitem(last=False)
            wants[i] = next(request)[0]
            ready[i] = request
        owed = sum(blocks(len(tokens)) for tokens in wants.values())
        while new and not asleep and (not ready or blocks(len(new[0]["prompt"])) + owed <= engine.free_blocks()):
            event = new.pop(0)
            ready[event["id"]] = life(engine, desk, event)
            wants[event["id"]] = next(ready[event["id"]])[0]
            owed += blocks(len(wants[event["id"]]))
        while ready:
            left, work = engine.max_tokens, []
            for i in sorted(ready, key=lambda i: len(wants[i]) > 1):
                if left > 0:
                    work.append((i, wants[i][:left]))
                    left -= len(work[-1][1])
            try:
                made = engine.step(work)
            except ValueError:
                i, request = ready.popitem()
                request.send("give way")
                asleep[i] = request
                asleep.move_to_end(i, last=False)
                wants.pop(i)
                continue
            for (i, tokens), token in zip(work, made, strict=True):
                try:
                    wants[i] = ready[i].send((len(tokens), token))[0]
                except StopIteration:
                    del ready[i], wants[i]
            break


VARIANTS = (
    Variant("one function, dicts and lists", one_function),
    Variant("a coroutine for each request", coroutines),
    Variant("reserves to the end", work(Reserves)),
    Variant("admits everybody", work(Hopes)),
    Variant("never mixes: three steps of prompts, one of decoding", work(TakesTurns)),
    Variant("prompts first, within the bound", work(PromptsFirstWithinBounds)),
    Variant("one prompt a step, in two blocks", work(OnePromptAStep)),
    Variant("prompts share alike", work(SharesAlike)),
    Variant("the largest gives way", work(LargestGivesWay)),
    Variant("the shortest first, within the bound", work(ShortestFirstWithinBounds)),
    Variant("admits to see what is found", work(LooksFirst)),
    Variant("drops prompts from a step first", work(DropsPromptsFirst)),
    Variant("hears before it sends", work(HearsAfterTheStep)),
    Variant("all but the oldest give way", work(AllButTheOldest)),
    Variant("never mixes: four steps of decoding, one of prompts", work(DecodesFourSteps)),
    Variant("tiny chunks", work(TinyChunks)),
    Variant("sends later", work(SendsLater)),
    Variant("refuses late", work(RefusesLate)),
)
