"""Visit every state once, breadth first, and check the properties of each."""

from collections import deque
from dataclasses import dataclass, field

from tests.exhaustive.model.moves import Model
from tests.exhaustive.model.world import IDLE, Faults, Rules, Scope, ViolationError, World


@dataclass
class Explored:
    """The counts of an exploration, and the names of the moves that it saw."""

    states: int = 0
    transitions: int = 0
    drained: int = 0
    names: set[str] = field(default_factory=set[str])


#: How many steps may lead from any state, without faults, to the end of all work.
LONGEST_DRAIN = 500


def explore(scope: Scope, rules: Rules | None = None) -> Explored:
    """Visit every state of a scope.

    Raises:
        ViolationError: a property does not hold.
    """
    model = Model(scope, rules or Rules())
    start = model.start()
    parents: dict[World, tuple[World, str] | None] = {start: None}
    seen, drains = Explored(), set[World]()
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        try:
            moves = list(model.moves(world))
            drain(model, world, drains)
        except ViolationError as violation:
            path = " > ".join(path_to(parents, world))
            raise ViolationError(f"{violation}\n{path}\nin {world}") from None
        for move in moves:
            seen.transitions += 1
            seen.names.add(move.name)
            if move.after not in parents:
                parents[move.after] = (world, move.name)
                waiting.append(move.after)
    seen.states, seen.drained = len(parents), len(drains)
    return seen


def path_to(parents: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    path: list[str] = []
    step = parents[world]
    while step is not None:
        world, name = step
        path.append(name)
        step = parents[world]
    return path[::-1]


def drain(model: Model, world: World, drains: set[World]) -> None:
    """Stop all faults and let the workers go on; time passes while everybody waits for a lease."""
    path: list[World] = []
    world = world._replace(faults=Faults(), late=())
    while world not in drains:
        path.append(world)
        if len(path) > LONGEST_DRAIN:
            raise ViolationError("the work does not come to an end when the faults have stopped")
        moves = [move for move in model.moves(world) if not move.fault]
        if not moves:
            check_end(model, world)
            break
        # Busy workers go first, so that nobody waits for a worker that never gets its turn.
        going = [move for move in moves if not move.name.startswith("receive")] or moves
        world = going[0].after
        if going[0].name == "recover after a delay":
            world = world._replace(now=world.now + 1)
    drains.update(path)


def check_end(model: Model, world: World) -> None:
    if world.queue or any(worker != IDLE for worker in world.workers):
        raise ViolationError("work is left that nobody can do")
    for uuid in range(model.scope.uuids):
        if not world.effects[uuid] and not world.parked[uuid]:
            raise ViolationError("a message is lost")
