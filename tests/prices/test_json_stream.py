"""A JSON object of any size, read member by member from parts of any size."""

import hashlib
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubetally.errors import BadDataError
from kubetally.prices import json_stream
from kubetally.prices.json_stream import JsonReader


def parts(body: bytes, size: int):
    return (body[at : at + size] for at in range(0, len(body), size))


def read(body: bytes, size: int = 5):
    reader = JsonReader(parts(body, size), "The file")
    found = {name: reader.value() for name in reader.members()}
    reader.finish()
    return found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    content=st.dictionaries(st.text(max_size=6), VALUES, max_size=5),
    size=st.integers(1, 40),
    indent=st.none() | st.integers(0, 2),
    is_ascii=st.booleans(),
)
def test_whatever_the_parts_the_content_is_the_same(content, size, indent, is_ascii):
    body = json.dumps(content, indent=indent, ensure_ascii=is_ascii).encode()
    assert read(body, size) == content


def test_a_number_that_goes_on_in_the_next_part_is_one_number():
    assert read(b'{"a": 12.50, "b": 345}', 7) == {"a": Decimal("12.50"), "b": 345}


def test_members_can_be_walked_and_skipped():
    body = json.dumps({"skip": {"x": [1, {"y": 2}]}, "walk": {"a": 1, "b": {"c": 2}}, "n": 7})
    reader = JsonReader(parts(body.encode(), 3), "The file")
    seen = []
    for name in reader.members():
        if name == "walk":
            for inner in reader.members():
                seen.append(inner)
                if inner == "b":
                    seen.append(reader.value())
        elif name == "n":
            seen.append(reader.value())
    reader.finish()
    assert seen == ["a", "b", {"c": 2}, 7]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a": 1', "ends too early"),
        (b'{"a": {"b": "c', "Unterminated string"),
        (b'{"a": 1}}', "follows after the end"),
        (b'{"a" 1}', "':' was expected"),
        (b'{"a": 1 "b": 2}', "',' or '}' was expected"),
        (b"[1, 2]", "'{' was expected"),
        (b"<html>busy</html>", "'{' was expected"),
        (b"", "ends too early"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\xc3', "not UTF-8"),
        (b"{1: 2}", "a name was expected"),
    ],
)
def test_a_broken_file_is_an_error_that_says_where(body, said):
    with pytest.raises(BadDataError, match="The file is not in the known form") as error:
        read(body)
    assert said in str(error.value)


def test_a_value_beyond_any_reason_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(json_stream, "LARGEST_VALUE", 1000)
    with pytest.raises(BadDataError, match="more than 1000 characters"):
        read(b'{"a": "' + b"x" * 5000 + b'"}', 100)


def test_the_hash_is_that_of_the_whole_file():
    reader = JsonReader([b'{"a":', b"1}", b"\n"], "The file")
    for _ in reader.members():
        pass
    reader.finish()
    assert reader.sha256 == hashlib.sha256(b'{"a":1}\n').hexdigest()
    assert reader.size_bytes == 8
