"""load on hostile headers: one typed, short error each, in bounded memory, whatever they hold."""

import io
import json
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyt
from tinyt import nn, ops, serialization
from tinyt.printing import abbreviated
from tinyt.serialization import SerializationError


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return io.BytesIO(struct.pack("<Q", len(text)) + text + data)


def entry(**changes):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


def nested(depth, leaf=0):
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def error_of(file):
    with pytest.raises(SerializationError) as caught:
        tinyt.load(file)
    text = str(caught.value)
    assert len(text) < 600
    assert text.isprintable()
    return text


@pytest.mark.parametrize("depth", [10, 300, 900, 5000])
@pytest.mark.parametrize("field", ["dtype", "shape", "data_offsets", None])
def test_nested_lists_are_an_error_of_the_file(field, depth):
    text = json.dumps(entry(**{field: "@"}) if field else "@")
    text = '{"a":' + text.replace('"@"', "[" * depth + "]" * depth) + "}"
    assert "load: " in error_of(file_of(text.encode(), b"\0" * 8))


@pytest.mark.parametrize("depth", [90, 500, 900])
@pytest.mark.parametrize("tag", ["tensor", "code", "dict"])
def test_nested_lists_in_the_nesting(tag, depth):
    tree = json.dumps({tag: nested(depth)})
    assert "bad object" in error_of(file_of({"__metadata__": {"tinyt.object": tree}}))


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-8-sig"]
)
def test_only_utf8_is_read(encoding):
    text = json.dumps({"a": entry()}).encode(encoding)
    error_of(file_of(text, b"\0" * 8))


def test_names_of_any_text_but_lone_surrogates():
    name = 'é\u2028\U0001f600 "quoted" \\ \n \x7f'
    for ascii_only in (True, False):
        text = json.dumps({name: entry()}, ensure_ascii=ascii_only).encode()
        assert list(tinyt.load(file_of(text, b"\0" * 8))) == [name]
    assert "surrogate" in error_of(file_of(b'{"\\ud800":' + json.dumps(entry()).encode() + b"}"))
    with pytest.raises(ValueError, match="save: text with a lone surrogate"):
        tinyt.save({"\ud800": ops.zeros(1)}, io.BytesIO())


def test_valid_forms_of_a_header():
    fields = ['"dtype":"F32"', '"shape" : [ 2 ]', '"data_offsets":\n[0,\t8]']
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        text = "{ " + ' "\\u0061" : {' + " , ".join(fields[i] for i in order) + " } }  "
        assert tinyt.load(file_of(text.encode(), b"\0" * 8))["a"].tolist() == [0, 0]
    text = json.dumps({"a": entry(), "__metadata__": {"x": "y"}}, indent=8, sort_keys=True)
    assert list(tinyt.load(file_of(text.encode(), b"\0" * 8))) == ["a"]
    assert tinyt.load(file_of(b'{"__metadata__":{} }')) == {}
    many = {"a": entry(shape=[1] * 64, data_offsets=[0, 4])}
    assert tinyt.load(file_of(json.dumps(many, indent=4).encode(), b"\0" * 4))["a"].ndim == 64


ENTRY = json.dumps(entry()).encode()


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":' + ENTRY,
        b'{"a":' + ENTRY + b",}",
        b'{,"a":' + ENTRY + b"}",
        b'{"a":' + ENTRY + b' "b":' + ENTRY + b"}",
        b'{"a"' + ENTRY + b"}",
        b"{a:" + ENTRY + b"}",
        b'{"a":' + ENTRY + b"}x",
        b'{"a":' + ENTRY + b"}\0",
        b'{"a":' + ENTRY + b"}{}",
        b'{"a\n":' + ENTRY + b"}",
        b'{"a\\x":' + ENTRY + b"}",
        b'{"a":' + ENTRY.replace(b"[2]", b"[02]") + b"}",
        b'{"a":' + ENTRY.replace(b"[2]", b"[2,]") + b"}",
        b'{"a":' + ENTRY.replace(b"[2]", b"[" + b"9" * 5000 + b"]") + b"}",
        b'{"a":' + b" " * 100 + b'{"dtype":"F32",' + b" " * 20000 + b'"shape":[2]}}',
        b'{"__metadata__":{},"__metadata__":{}}',
        b'{"__metadata__":{"a":"b","a":"b"}}',
        b'{"__metadata__":{"a":null}}',
        b'{"__metadata__":{"a":"b"}',
        b'{"a":' + ENTRY + b',"\\u0061":' + ENTRY + b"}",
    ],
)
def test_invalid_forms_of_a_header(text):
    error_of(file_of(text, b"\0" * 8))


LONG = "n" * 1_000_000


@pytest.mark.parametrize(
    "header",
    [
        {LONG: []},
        {LONG: entry(dtype=LONG)},
        {LONG: entry(data_offsets=[8, 16])},
        {"a": {**entry(), LONG: 1}},
        {"a": entry(shape=[LONG])},
        {"a": entry(shape=[1] * 100_000)},
        {"__metadata__": {"tinyt.object": json.dumps({LONG: 1})}},
        {"__metadata__": {"tinyt.object": json.dumps({"tensor": [LONG] * 3})}},
        {"__metadata__": {"tinyt.object": "[" + LONG}},
        {"__metadata__": {"tinyt.complex128": json.dumps([LONG])}},
        {"a\x1b[31m\r\n\u202e": []},
    ],
)
def test_texts_of_errors_are_short_and_printable(header):
    error_of(file_of(header, b"\0" * 8))


def test_repeated_long_name():
    text = f'{{"{LONG}":{ENTRY.decode()},"{LONG}":{ENTRY.decode()}}}'.encode()
    assert "occurs more than once" in error_of(file_of(text, b"\0" * 8))
    tree = f'{{"dict":{{"{LONG}":1,"{LONG}":1}}}}'
    header = {"__metadata__": {"tinyt.object": tree}}
    assert "occurs more than once" in error_of(file_of(header))


def test_errors_of_save_are_short():
    for obj in ({LONG: object()}, {LONG: {(1, 2): 3}}, {LONG: nested(200)}):
        with pytest.raises((TypeError, ValueError)) as caught:
            tinyt.save(obj, io.BytesIO())
        assert len(str(caught.value)) < 300


def text_of_missing_names(model, state):
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        return str(error)
    return ""


def test_texts_of_load_state_dict_are_bounded():
    state = {LONG: 0, **{f"n{i}": 0 for i in range(100_000)}}
    text = text_of_missing_names(nn.Linear(1, 1), state)
    assert 'nnn...", "n0"' in text
    assert ", and 99001 more" in text
    assert len(text) < 20_000


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":[' + b"[]," * 1_000_000 + b"[]]}",
        b'{"a":{"dtype":"U8","shape":[' + b"1," * 1_500_000 + b'1],"data_offsets":[0,1]}}',
        b'{"__metadata__":[' + b"{}," * 1_000_000 + b"{}]}",
        b'{"__metadata__":{"tinyt.object":"[' + b"[]," * 4_200_000 + b'[]]"}}',
        b'{"a":{"dtype":"' + b"\\u0041" * 500_000 + b'"}}',
    ],
)
def test_memory_is_bounded_by_the_size_of_a_hostile_header(text):
    file = file_of(text)
    tracemalloc.start()
    try:
        error_of(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(text)


def test_many_lists_in_strings_are_no_nesting():
    text = '[{"\\' * 1_100_000
    file = io.BytesIO()
    tinyt.save([text, [1]], file)
    file.seek(0)
    assert tinyt.load(file) == [text, [1]]


def test_more_lists_than_can_be_loaded_are_not_saved(monkeypatch):
    monkeypatch.setattr(serialization, "_MAX_CONTAINERS", 100)
    tinyt.save([[]] * 99, io.BytesIO())
    with pytest.raises(ValueError, match="save: the nesting has 101 lists, tuples and dicts"):
        tinyt.save([[]] * 100, io.BytesIO())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
SIZES = st.lists(st.sampled_from([-1, 0, 1, 2, 8, 2**31, 2**63, 2**64, True, 0.5, "1"]), max_size=4)
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "U8", "BOOL", "U64", "F8_E4M3", "F4", "C64"]) | JSON,
        "shape": SIZES | JSON,
        "data_offsets": SIZES | JSON,
    }
)
HEADERS = st.dictionaries(
    st.text(max_size=4) | st.just("__metadata__"),
    ENTRIES | JSON | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    max_size=4,
)


def loads_or_fails_well(file):
    problem = ""
    try:
        tinyt.load(file)
    except SerializationError as error:
        problem = str(error)
    assert len(problem) < 600
    assert problem.isprintable()


@given(HEADERS, st.binary(max_size=40))
@settings(deadline=None)
def test_any_json_header(header, data):
    loads_or_fails_well(file_of(header, data))


@given(st.binary(max_size=60), st.binary(max_size=8))
@settings(deadline=None)
def test_any_bytes_as_header(text, data):
    loads_or_fails_well(file_of(b"{" + text, data))


VALID = json.dumps(
    {"__metadata__": {"k": "v", "tinyt.object": '{"tuple":[{"tensor":"a"},1]}'}, "a": entry()}
).encode()


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(VALID) - 1),
            st.integers(0, 3),
            st.sampled_from([b"", b"{", b"}", b"[", b"]", b'"', b",", b"\\", b"9", b"\xff", b":"]),
        ),
        min_size=1,
        max_size=3,
    )
)
@settings(deadline=None)
def test_damaged_header(edits):
    text = VALID
    for at, removed, inserted in edits:
        text = text[:at] + inserted + text[at + removed :]
    loads_or_fails_well(file_of(text, b"\0" * 8))


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(
    st.dictionaries(NAMES.filter(lambda n: n != "__metadata__"), st.integers(0, 3)),
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.booleans(),
    st.sampled_from([None, 1, 3]),
    st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_any_valid_header_is_read(sizes, metadata, ascii_only, indent, random):
    header, begin = {}, 0
    for name, size in sizes.items():
        fields = list(entry(dtype="U8", shape=[size], data_offsets=[begin, begin + size]).items())
        random.shuffle(fields)
        header[name] = dict(fields)
        begin += size
    header["__metadata__"] = metadata
    text = json.dumps(header, ensure_ascii=ascii_only, indent=indent)
    loaded = tinyt.load(file_of(text.encode(), bytes(begin)))
    assert {name: len(tensor) for name, tensor in loaded.items()} == sizes


@given(JSON, st.integers(10, 100))
def test_abbreviated_is_short_and_is_repr_where_that_is_short(value, limit):
    text = abbreviated(value, limit)
    assert len(text) <= limit
    if len(repr(value)) <= 8:
        assert abbreviated(value) == repr(value)


def test_abbreviated_of_what_repr_cannot_write():
    assert abbreviated(10**5000) == "an integer of 16610 bits"
    assert abbreviated(nested(100_000)) == "[[[[...]]]]"
    assert abbreviated([1] * 10**6) == "[1, 1, 1, 1, 1, 1, 1, 1, ...]"
    assert abbreviated("x" * 10**6) == "'" + "x" * 76 + "..."
    assert abbreviated(object()) == "object"
