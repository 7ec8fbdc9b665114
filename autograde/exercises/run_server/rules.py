"""Who was left out for how long, step by step, and who keeps blocks that others could have."""

from __future__ import annotations

from dataclasses import dataclass

from autograde.exercises.run_server.world import SOON, Client, World


@dataclass
class Held:
    """A request that was admitted."""

    client: Client
    table: list[int]
    stored: int  # tokens in these blocks
    state: int  # follows from them
    goal: int  # with so many stored it decodes


def watch(world: World, held: dict[int, Held], taking_part: list[Held], total: int) -> None:
    """Before a step of so many tokens: who is left out of it."""
    decodes = {i for i, holding in held.items() if holding.stored >= holding.goal}
    ids = {holding.client.id for holding in taking_part}
    prompts = any(holding.stored < holding.goal for holding in taking_part)
    crowded, room = len(decodes) > world.max_tokens, not prompts and total < world.max_tokens and world.all_fit()
    for client in world.clients:
        waits = client.is_open and client.let_go < 0 and client.made < client.ask.n and world.fits(client)
        if not waits or client.id in ids:
            client.left_out = 0
        elif client.id in decodes:
            client.left_out += prompts and not crowded
            if client.left_out > SOON:
                fact = f"does not hold: one who decodes is left out of at most {SOON} steps that compute prompts"
                _left_out(world, "starved", fact, client, len(held))
        else:
            client.left_out = client.left_out + 1 if room else 0
            if client.left_out > SOON:
                fact = f"does not hold: a prompt that has room waits for at most {SOON} steps that compute none"
                _left_out(world, "idle", fact, client, len(held))


def _left_out(world: World, key: str, fact: str, client: Client, num_held: int) -> None:
    where, got = f"{client.said}, step {world.steps}", f"{client.left_out} in a row"
    world.fault(key, fact, where, f"{SOON} at most", got, len(client.sent), num_held)


def look_at_the_gone(world: World, held: dict[int, Held]) -> None:
    """After a step: who has blocks although it is gone."""
    for holding in held.values():
        client = holding.client
        got = f"{len(holding.table)} blocks held"
        if client.let_go >= 0 and world.clock - client.let_go > SOON:
            fact = f"does not hold: an aborted request has released its blocks within {SOON} steps"
            world.fault("aborted holds", fact, client.said, "none held", got, len(client.sent))
        elif client.over >= 0 and world.clock - client.over > SOON:
            fact = f"does not hold: a request that has its tokens releases its blocks within {SOON} steps"
            world.fault("done holds", fact, client.said, "none held", got)
