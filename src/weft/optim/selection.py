"""Which parameters an optimiser updates, and with which options: patterns of their labels.

A pattern is that of a shell: `*.bias` is every label that ends so, `block?.w` has any letter there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from weft.assign import Code, seq
from weft.errors import WeftError
from weft.notation.words import meant
from weft.tensor.tensor import Tensor

#: Patterns of labels; a single one may stand for itself.
Patterns: TypeAlias = str | Sequence[str]
#: Options by the pattern of the labels that they are for.
OptionGroups: TypeAlias = Mapping[str, Mapping[str, Any]]


def chosen_params(loss: Tensor, only: Patterns = (), exclude: Patterns = ()) -> tuple[Tensor, ...]:
    """The parameters of a loss: `only` those that match a pattern, if there are any, and none to `exclude`."""
    params = _params(loss)
    labels = [p.label for p in params]
    some, none = _patterns(only, "only"), _patterns(exclude, "exclude")
    for pattern in (*some, *none):
        _check_matches(pattern, labels)
    kept = tuple(p for p in params if (not some or _matches(p, some)) and not _matches(p, none))
    if not kept:
        what = f"only= and exclude= leave no parameter of `{loss.label}`"
        raise WeftError(what, notes=[_listed(labels)], fix="leave one of them out, or say less")
    return kept


def _params(loss: Tensor) -> tuple[Tensor, ...]:
    if not isinstance(loss, Tensor):
        raise WeftError(
            f"an optimiser takes a loss, not {type(loss).__name__}, and updates all its parameters",
            fix='wf.optim.sgd(loss, lr=0.1); some parameters are chosen by their labels: only=["*.w"]',
        )
    if not loss.params:
        what = f"`{loss.label}` does not depend on any parameter, so there is nothing to update"
        raise WeftError(what, fix="build the loss from parameters: wf.param, or strings inside @wf.op")
    return loss.params


def update_each(
    one: Callable[..., Code], params: Sequence[Tensor], options: Mapping[str, object], groups: OptionGroups | None
) -> Code:
    """The code that updates each parameter: with the options, of which groups that it is in change some, in order."""
    checked = _checked_groups(groups, options, [p.label for p in params])
    return seq(*(one(p, **_options_of(p, options, checked)) for p in params))


def _options_of(p: Tensor, options: Mapping[str, object], groups: OptionGroups) -> dict[str, object]:
    own = dict(options)
    for pattern, changed in groups.items():
        if fnmatchcase(p.label, pattern):
            own.update(changed)
    return own


def _checked_groups(groups: OptionGroups | None, options: Mapping[str, object], labels: Sequence[str]) -> OptionGroups:
    if groups is None:
        return {}
    if not isinstance(groups, Mapping) or not all(isinstance(changed, Mapping) for changed in groups.values()):
        what = f"groups= takes options by pattern, not {groups!r}"
        raise WeftError(what, fix='write groups={"*.bias": dict(lr=0.01)}')
    for pattern, changed in groups.items():
        _check_matches(pattern, labels)
        for name in changed:
            if name not in options:
                fix = meant(str(name), options, f"the options are {', '.join(options)}")
                raise WeftError(f"the group {pattern!r} has an option `{name}`, which there is not", fix=fix)
    return groups


def _patterns(given: Patterns, name: str) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else given
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        what = f"{name}= takes patterns of labels, not {given!r}"
        raise WeftError(what, fix=f'write {name}=["*.bias"]')
    return tuple(found)


def _matches(p: Tensor, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(p.label, pattern) for pattern in patterns)


def _check_matches(pattern: object, labels: Sequence[str]) -> None:
    if not isinstance(pattern, str):
        raise WeftError(f"a pattern of labels is text, not {pattern!r}", fix='write "*.bias"')
    if not any(fnmatchcase(label, pattern) for label in labels):
        whole = [
            one
            for one in (f"{pattern}.*", f"*.{pattern}", f"*.{pattern}.*")
            if any(fnmatchcase(label, one) for label in labels)
        ]
        close = whole or get_close_matches(pattern, labels, 1)
        fix = f'did you mean "{close[0]}"?' if close else "a pattern matches whole labels: `*.bias` what ends in .bias"
        raise WeftError(f"the pattern {pattern!r} matches no parameter", notes=[_listed(labels)], fix=fix)


def _listed(labels: Sequence[str]) -> str:
    return f"the parameters are {', '.join(labels)}"
