"""Globs of the configuration as regular expressions that Postgres reads."""

from __future__ import annotations

import re


def regex(glob: str) -> str:
    """A glob as an anchored regular expression that Postgres reads as fnmatch reads the glob.

    Not fnmatch.translate: its atomic groups are Python's own.
    """
    pieces: list[str] = []
    rest = glob
    while rest:
        char, rest = rest[0], rest[1:]
        found = re.match(r"(!?)(\]?[^\]]*)\]", rest) if char == "[" else None
        if found and found[2]:
            pieces.append(_bracket(found[2], is_negated=bool(found[1])))
            rest = rest[found.end() :]
        else:
            pieces.append({"*": ".*", "?": "."}.get(char) or re.escape(char))
    return f"^{''.join(pieces)}$"


def _bracket(chars: str, *, is_negated: bool) -> str:
    """What stands between the brackets of a glob; a range that runs backwards matches nothing."""
    members: list[str] = []
    while chars:
        if len(chars) > 2 and chars[1] == "-":
            if chars[0] <= chars[2]:
                members.append(f"{re.escape(chars[0])}-{re.escape(chars[2])}")
            chars = chars[3:]
        else:
            members.append(re.escape(chars[0]))
            chars = chars[1:]
    if not members:
        return "." if is_negated else "(?!)"
    return f"[{'^' if is_negated else ''}{''.join(members)}]"
