"""α-renaming: what a kernel calls the buffers and loops of its template, a kernel that is equal to it but for names.

    for i: h1[i] = relu(x[i] + b1[i])      with h1 as h2, x as h1, b1 as b2 is      for i: h2[i] = relu(h1[i] + b2[i])

What passes made of the template has more names than it had. They come from those they were made from: `h1_part` in the
template is `h2_part` here. A buffer that stands beside another stands beside what that is called here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.lazy import lazy_property
from weft.loops import Buffer, Stmt
from weft.loops.effects import names
from weft.loops.staged import with_descriptions
from weft.loops.walk import Body, Cell, retargeted
from weft.naming import FreshNames
from weft.ops import Scalar
from weft.schedule.loop_tree import bound_names, renamed


@dataclass(frozen=True)
class AlphaRenaming:
    """Buffers, loops and variables of a template, and those that a kernel has in their place; others are the same."""

    buffers: Mapping[Buffer, Buffer] = field(default_factory=dict, hash=False)
    names: Mapping[str, str] = field(default_factory=dict, hash=False)

    def buffer(self, one: Buffer) -> Buffer:
        """What stands here for a buffer of the template, or of what passes made of it."""
        if one in self.buffers or not self.buffers:
            return self.buffers.get(one, one)
        if one.of is None:
            return replace(one, name=self._derived(one.name))
        of = self.buffer(one.of)
        old, new = one.of.name, of.name
        if not one.name.startswith(old):
            old, new = _plain(old), _plain(new)
        return replace(one, id=of.id, name=new + one.name.removeprefix(old), of=of)

    def applied(self, template: Sequence[Stmt]) -> Body:
        """The statements of the template, or of what passes made of it, under the names that they have here."""
        if not self.buffers and not self.names:
            return tuple(template)

        def cell(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
            return self.buffer(buffer), at

        return with_descriptions(retargeted(renamed(template, self._bound(template)), cell))

    def _bound(self, template: Sequence[Stmt]) -> dict[str, str]:
        """What the loops and variables are called; those that a pass made are not called as any other."""
        own = bound_names(template)
        known = {name: self.names[name] for name in own if name in self.names}
        fresh = FreshNames({*known.values(), *(names(template) - own)})
        return known | {name: fresh.fresh(self._derived(name)) for name in sorted(own - known.keys())}

    def _derived(self, name: str) -> str:
        """What a name becomes that was made from another one of the template."""
        end = len(name)
        while end > 0:
            if name[:end] in self._stems:
                return self._stems[name[:end]] + name[end:]
            end = name.rfind("_", 0, end)
        return name

    @lazy_property
    def _stems(self) -> dict[str, str]:
        called = {one.name: other.name for one, other in self.buffers.items()} | dict(self.names)
        return {_plain(old): _plain(new) for old, new in called.items()}


def _plain(name: str) -> str:
    """A name of a buffer as part of a variable's."""
    return name.replace(".", "_")


#: Of a kernel that is like no other.
IDENTITY = AlphaRenaming()
