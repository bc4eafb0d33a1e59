"""JSON into dataclasses: the right thing comes back, and everything else is one error of one line."""

from dataclasses import asdict, dataclass, field
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.errors import FlameError
from flame.files import json_text
from flame.records import RecordError, parse_json, read_json, record


@dataclass(frozen=True)
class Part:
    size: int = 1


@dataclass(frozen=True)
class Whole:
    name: str
    share: float
    kind: Literal["a", "b"] = "a"
    on: bool = True
    many: tuple[float, ...] = ()
    table: dict[str, float] = field(default_factory=dict)
    part: Part = field(default_factory=Part)
    rate: float | None = None


def test_what_was_written_comes_back():
    whole = Whole("x", 2, "b", False, (1.0, 2.5), {"k": 3.0}, Part(7), 4.0)
    assert record(Whole, parse_json(json_text(asdict(whole)), "here", "a whole"), "here") == whole
    assert record(Whole, {"name": "x", "share": 1, "rate": None}, "here") == Whole("x", 1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "name: expected str, got 3"),
        ({"share": "3"}, "share: expected float, got '3'"),
        ({"share": True}, "expected float"),
        ({"share": float("inf")}, "expected float"),
        ({"share": 10**400}, "expected float"),
        ({"kind": "c"}, "kind: expected one of a, b, got 'c'"),
        ({"on": 1}, "expected bool"),
        ({"many": 3}, "many: expected tuple, got 3"),
        ({"many": [1, "a"]}, "expected float"),
        ({"part": {"size": 1.5}}, "part: size: expected int, got 1.5"),
        ({"part": []}, "expected an object"),
        ({"surprise": 1}, "unknown entries surprise"),
    ],
)
def test_other_types_are_named(change, words):
    with pytest.raises(RecordError, match="here") as caught:
        record(Whole, {"name": "x", "share": 1.0} | change, "here")
    assert words in str(caught.value)


def test_what_is_missing_is_named():
    with pytest.raises(RecordError, match="the entry 'share' is missing"):
        record(Whole, {"name": "x"}, "here")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*Whole.__dataclass_fields__, "other", "two\nlines"]), JSON))
def test_nothing_but_flame_errors(entries):
    words = ""
    try:
        record(Whole, entries, "here")
    except FlameError as error:
        words = str(error)
    assert len(words.splitlines()) <= 1


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"NaN", b"[" * 100_000, b"1" * 5000, b"{}}"])
def test_what_is_no_json_is_one_line(text, tmp_path):
    with pytest.raises(RecordError, match="not JSON") as caught:
        parse_json(text, "here", "a whole")
    assert "\n" not in str(caught.value)
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(RecordError, match=r"a\.json"):
        read_json(tmp_path / "a.json", "a whole")


def test_files_that_are_not_there_or_no_files(tmp_path):
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(RecordError, match="no such file"):
            read_json(path, "a whole")
