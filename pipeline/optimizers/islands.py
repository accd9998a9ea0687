"""Populations that evolve apart and now and then exchange their best, so that no idea takes all over at once.

Source: Whitley, Rana and Heckendorn, The Island Model Genetic Algorithm, Journal of Computing and Information
Technology 7, 1999
"""

from __future__ import annotations

import random

from pipeline.optimizers.archive import Archive, Member, best_first

_TOURNAMENT = 2


class Islands:
    """`count` archives with the same founder. Each draws with a generator of its own."""

    def __init__(self, count: int, founder: Member, name: str) -> None:
        """`name` seeds the generators."""
        self.archives = [Archive(founder) for _ in range(count)]
        self.draws = [random.Random(f"{name}/island {number}") for number in range(count)]

    def parents(self, island: int) -> tuple[Member, Member]:
        """Two members, the better first; the same one twice where there is no other. Each won a tournament of two."""
        draw, members = self.draws[island], self.archives[island].members
        places = sorted(min(draw.choices(range(len(members)), k=_TOURNAMENT)) for _ in range(2))
        if places[0] == places[1] and len(members) > 1:
            places = sorted((places[0], draw.choice([place for place in range(len(members)) if place != places[0]])))
        return members[places[0]], members[places[1]]

    def migrate(self) -> None:
        """The best member of each island is offered to the next one, all at the same time, in a ring."""
        bests = [archive.members[0] for archive in self.archives]
        for number, best in enumerate(bests):
            self.archives[(number + 1) % len(self.archives)].offer(best)

    @property
    def members(self) -> list[Member]:
        """All members, each once, best first."""
        found = {member.program.hash: member for archive in self.archives for member in archive.members}
        return best_first(found.values())
