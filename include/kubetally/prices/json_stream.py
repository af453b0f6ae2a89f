"""Reads a JSON object that is too big for memory, member by member.

Each value is decoded by the standard library's C scanner as soon as it is whole, so memory holds one
value and one part of the file, whatever the size of the file.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from kubetally.errors import BadDataError

LARGEST_VALUE = 16 * 1024**2  # characters; one product of a price list has a few thousand
SPACE = re.compile(r"[ \t\r\n]*")


class JsonReader:
    """Walks over the top-level object in `parts` (UTF-8). Numbers become Decimal or int.

    Raises BadDataError naming what is wrong: truncated, not JSON, a value beyond any reason.
    """

    def __init__(self, parts: Iterable[bytes], name: str) -> None:
        self.name = name
        self.size_bytes = 0
        self._parts = iter(parts)
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._decode = json.JSONDecoder(parse_float=Decimal).raw_decode
        self._text = ""
        self._at = 0
        self._is_over = False
        self._is_taken = True
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Of everything read so far; of the whole file after `finish`."""
        return self._hash.hexdigest()

    def members(self) -> Iterator[str]:
        """The names in the object that comes next. Take each one's value with `value` or `members`;
        a value that is not taken is skipped."""
        self._take("{")
        if self._next() == "}":
            self._at += 1
            self._is_taken = True
            return
        while True:
            name = self._value()
            if not isinstance(name, str):
                raise self._error("a name was expected")
            self._take(":")
            self._is_taken = False
            yield name
            if not self._is_taken:
                self.skip()
            sign = self._next()
            self._at += 1
            if sign == "}":
                self._is_taken = True
                return
            if sign != ",":
                raise self._error(f"',' or '}}' was expected, not {sign!r}")

    def value(self) -> Any:
        """The value that comes next, decoded as a whole."""
        self._is_taken = True
        return self._value()

    def skip(self) -> None:
        """Passes over the value that comes next; a big object member by member."""
        self._is_taken = True
        if self._next() == "{":
            for _ in self.members():
                self.value()
        else:
            self._value()

    def finish(self) -> None:
        """Makes sure that nothing but white space follows, and that the file has been read whole."""
        while True:
            self._at = SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                raise self._error("something follows after the end")
            if not self._read_on():
                return

    def _value(self) -> Any:
        self._next()
        while True:
            try:
                found, end = self._decode(self._text, self._at)
            except ValueError as error:
                if not self._read_on():
                    raise self._error(str(error)) from None
            else:
                if end < len(self._text) or not self._read_on():  # a number may go on
                    self._at = end
                    return found

    def _next(self) -> str:
        while True:
            self._at = SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on():
                raise self._error("it ends too early")

    def _take(self, sign: str) -> None:
        found = self._next()
        if found != sign:
            raise self._error(f"{sign!r} was expected, not {found!r}")
        self._at += 1

    def _read_on(self) -> bool:
        """Appends the next part; False at the end of the file."""
        if self._is_over:
            return False
        if len(self._text) - self._at > LARGEST_VALUE:
            raise self._error(f"a value has more than {LARGEST_VALUE} characters")
        part = next(self._parts, b"")
        self._is_over = not part
        self._hash.update(part)
        self.size_bytes += len(part)
        try:
            more = self._utf8.decode(part, final=self._is_over)
        except UnicodeDecodeError as error:
            raise self._error(f"it is not UTF-8: {error.reason}") from None
        self._text = self._text[self._at :] + more
        self._at = 0
        return not self._is_over

    def _error(self, why: str) -> BadDataError:
        return BadDataError(
            f"{self.name} is not in the known form near byte {self.size_bytes}: {why}.",
            remedy="Nothing was stored; what was known stays in place.",
        )
