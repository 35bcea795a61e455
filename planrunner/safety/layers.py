"""How settings of several places become one: files beside each other, the user's beneath, a profile on top.

Settings are JSON here, or JSON whose leaves remember where they stand: nothing looks into a leaf but for the ``id`` of
an entry.
"""

from __future__ import annotations

from typing import Any

Json = Any


def joined(first: Json, second: Json) -> Json:
    """A section of two files: keys of mappings and items of lists together. What stands twice was refused before."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {**first, **second}
    if isinstance(first, list) and isinstance(second, list):
        return [*first, *second]
    return first


def beneath(lower: Json, upper: Json) -> Json:
    """A section of the user with that of the project over it, key by key: an entry is taken as a whole, so that no
    address of the one meets a key of the other."""
    if isinstance(lower, dict) and isinstance(upper, dict):
        return {**lower, **upper}
    if isinstance(lower, list) and isinstance(upper, list):
        known = {id_of(each) for each in upper}
        return [*(each for each in lower if id_of(each) not in known or id_of(each) is None), *upper]
    return upper


def overlaid(base: Json, over: Json) -> Json:
    """A section with a profile's over it: mappings at any depth, lists of entries with an ``id`` by that, anything else
    as a whole. An empty value takes a key away."""
    if isinstance(base, dict) and isinstance(over, dict):
        found = dict(base)
        for key, value in over.items():
            if plain(value) is None:
                found.pop(key, None)
            else:
                found[key] = overlaid(found[key], value) if key in found else without_empty(value)
        return found
    if isinstance(base, list) and isinstance(over, list) and all(id_of(each) is not None for each in (*base, *over)):
        later = {id_of(each): each for each in over}
        found_ids = {id_of(each) for each in base}
        kept = [overlaid(each, later[id_of(each)]) if id_of(each) in later else each for each in base]
        return [*kept, *(without_empty(each) for each in over if id_of(each) not in found_ids)]
    return without_empty(over)


def without_empty(value: Json) -> Json:
    """A value whose mappings have no empty keys: there is nothing that they could take away."""
    if isinstance(value, dict):
        return {key: without_empty(each) for key, each in value.items() if plain(each) is not None}
    return [without_empty(each) for each in value] if isinstance(value, list) and value else value


def id_of(entry: Json) -> str | None:
    """The ``id`` of an entry of a list; None where it has none."""
    found = plain(entry.get("id")) if isinstance(entry, dict) else None
    return found if isinstance(found, str) else None


def plain(leaf: Json) -> Json:
    """The value of a leaf, whether it remembers its place or not."""
    return leaf.value if hasattr(leaf, "value") else leaf
