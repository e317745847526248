import os
import struct
import tracemalloc

import numpy as np
import pytest

from engine_sampler.tokenizer.gguf_metadata import read_metadata
from tests.tokenizer.gguf_files import byte_level_keys, write_gguf

KEYS = {
    "text": "日本",
    "empty": "",
    "yes": True,
    "id": 7,
    "score": -0.5,
    "words": ["a", "", "é"],
    "flags": [3, -1, 6],
    "scores": [0.0, -1.5],
}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [2, 3])
def test_every_value_is_read_in_either_byte_order(tmp_path, order, version):
    path = write_gguf(tmp_path / "a.gguf", KEYS, order, version)
    assert read_metadata(path) == {
        "general.architecture": "llama",
        **{f"tokenizer.ggml.{key}": value for key, value in KEYS.items()},
    }


def test_numbers_of_every_size_and_lists_of_lists_are_read(tmp_path):
    values = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values) + 1)
    for kind, code in values.items():
        data += struct.pack(f"<Q2sI{code}", 2, f"{kind:02}".encode(), kind, 1)
    inner = struct.pack("<IQHH", 2, 2, 5, 6)
    data += struct.pack("<Q1sIIQ", 1, b"l", 9, 9, 2) + inner + inner
    path = tmp_path / "a.gguf"
    path.write_bytes(data)
    assert read_metadata(path) == {f"{kind:02}": 1 for kind in values} | {"l": [[5, 6], [5, 6]]}


def test_text_that_is_not_utf8_keeps_its_bytes(tmp_path):
    metadata = read_metadata(write_gguf(tmp_path / "a.gguf", {"tokens": [b"\xff\xc3", b"a"]}))
    assert metadata["tokenizer.ggml.tokens"][0].encode("utf-8", "surrogateescape") == b"\xff\xc3"


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a.gguf"
    for data in (b"", b"GGML" + bytes(100)):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.gguf is not a GGUF file"):
            read_metadata(path)
    with pytest.raises(FileNotFoundError):
        read_metadata(tmp_path / "none.gguf")


@pytest.mark.parametrize("version", [1, 4])
def test_other_versions_are_refused(tmp_path, version):
    with pytest.raises(ValueError, match=rf"GGUF version {version} is not supported: 2 or 3"):
        read_metadata(write_gguf(tmp_path / "a.gguf", KEYS, version=version))


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path):
    whole = write_gguf(tmp_path / "a.gguf", KEYS).read_bytes()
    path = tmp_path / "part.gguf"
    for size in range(4, len(whole), 3):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"the header of .*part\.gguf cannot be read"):
            read_metadata(path)


def one_key(kind, value):
    return b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", kind) + value


@pytest.mark.parametrize(
    "data",
    [
        one_key(13, bytes(8)),  # an unknown type
        one_key(8, struct.pack("<Q", 2**64 - 1)),
        one_key(9, struct.pack("<IQ", 4, 2**64 - 1)),
        one_key(9, struct.pack("<IQQ", 8, 2**64 - 1, 2**64 - 1)),
        one_key(9, struct.pack("<IQ", 9, 1) * 5000),  # lists in lists in lists
    ],
)
def test_impossible_values_are_refused(tmp_path, data):
    path = tmp_path / "a.gguf"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="cannot be read"):
        read_metadata(path)


def test_a_list_may_be_empty(tmp_path):
    path = tmp_path / "a.gguf"
    for kind in (4, 8, 9):
        path.write_bytes(one_key(9, struct.pack("<IQ", kind, 0)))
        assert read_metadata(path) == {"k": []}


def test_files_of_the_usual_writer_are_read(tmp_path):
    gguf = pytest.importorskip("gguf")
    path, keys = tmp_path / "a.gguf", byte_level_keys()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(keys["tokens"])
    writer.add_token_types(keys["token_type"])
    writer.add_token_merges(keys["merges"])
    writer.add_eos_token_id(keys["eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_tensor("weights", np.ones((4, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    expected = {k: f.contents() for k, f in gguf.GGUFReader(path).fields.items() if "GGUF." not in k}
    assert read_metadata(path) == expected


def test_a_sparse_file_is_refused_without_reading_its_hole(tmp_path):
    """Its author wrote 4 KB, and a size of 3 GB."""
    path = tmp_path / "sparse.gguf"
    for data in (
        one_key(8, struct.pack("<Q", 3 << 30)),
        one_key(9, struct.pack("<IQ", 0, 3 << 30)),
        one_key(9, struct.pack("<IQ", 8, 300 << 20)),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 300 << 20),
    ):
        path.write_bytes(data)
        os.truncate(path, (3 << 30) + 4096)
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=r"cannot be read.*(beyond|more than)"):
                read_metadata(path)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
