"""The C library beside the Python stream: the same lines, the same plumes; bad input gives a status, never a crash."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from c_reference import (
    ROOT,
    build,
    by_python,
    decoded,
    has_compiler,
    lines_of,
    package_of,
    run_example,
    unet_model,
    with_checksum,
    write_lines,
)

from flame.detection import plume_labels
from flame.onboard import Asked
from flame.onboard.downlink import PlumePacket
from flame.onboard.link.space_packet import decode_space_packet
from flame.physics import sensor
from flame.pipeline.flight_image import flight_image
from flame.scene import Scene

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no C compiler, ar or make: the C library is not built")

OK, UNUSABLE_LINE, UNJUDGED_TILE, NO_ARGUMENT, NO_MODEL, OTHER_VERSION, DAMAGED, IMPOSSIBLE, MISPLACED = range(9)
BAD_OPTIONS, SMALL_ARENA, OTHER_BANDS, OTHER_COLUMNS = range(9, 13)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def library(built: Path) -> ctypes.CDLL:
    """The same objects as a shared library, so that every call can be tried."""
    shared = built / "libflame.so"
    parts = ["-Wl,--whole-archive", built / "libflame.a", "-Wl,--no-whole-archive", "-lm", "-pthread"]
    subprocess.run(["cc", "-shared", "-o", shared, *parts], check=True)
    opened = ctypes.CDLL(str(shared))
    opened.flame_words.restype = ctypes.c_char_p
    return opened


@pytest.fixture(scope="module")
def small_image() -> bytes:
    """A small network for tiles of 32 pixels in the bands of EMIT."""
    package = package_of(unet_model(functions=5, width=8, hidden=8), 32)
    return flight_image(package, sensor("emit").bands.methane())


@pytest.mark.parametrize(
    ("name", "size", "tile", "missing", "core"),
    [
        ("aviris-ng", 128, 128, 0.0, 0.415),
        ("emit", 150, 64, 0.1, 0.5),  # several tiles across and along, and columns that fill no vector
        ("prisma", 100, 128, 0.0, 0.0),  # smaller than a tile
        ("aviris-ng", 40, 32, 0.7, 0.2),  # fewer pixels than a covariance takes
    ],
)
def test_the_same_lines_give_the_same_plumes(
    built: Path, tmp_path: Path, name: str, size: int, tile: int, missing: float, core: float
) -> None:
    model = unet_model(0.05 if missing > 0.5 else 0.6)  # an opening leaves little between many holes
    package, scene = package_of(model, tile, core), lines_of(name, size, missing)
    expected = by_python(model, package, scene, tmp_path / "python")
    lines = write_lines(tmp_path / "lines.bin", scene)
    done = run_example(built, flight_image(package, scene.bands), lines, size, tmp_path / "c")
    assert done.returncode == 0, done.stderr
    mask = np.fromfile(tmp_path / "c" / "mask.bin", np.uint8).reshape(size, size).astype(bool)
    assert int((mask != expected.mask).sum()) <= 4
    assert expected.mask.sum() > 20
    found = decoded((tmp_path / "c" / "packets.bin").read_bytes(), tmp_path / "ground")
    if (mask == expected.mask).all():
        assert found.keys() == expected.packets.keys()
    assert (len(expected.packets) < plume_labels(expected.mask).max()) == (core > 0.0)
    same = 0
    for number, plume in found.items():
        other = expected.packets.get(number)
        if other is None or plume.area_px != other.area_px:
            continue
        same += 1
        for what in ("scene", "block_row", "block_col", "flags", "first_row", "first_col", "rows", "cols"):
            assert getattr(plume, what) == getattr(other, what), what
        assert np.array_equal(plume.outline, other.outline)
        assert abs(plume.confidence - other.confidence) < 1e-3
        assert plume.mean_ppm_m == pytest.approx(other.mean_ppm_m, rel=1e-3, abs=0.5)
        assert plume.peak_ppm_m == pytest.approx(other.peak_ppm_m, rel=1e-3, abs=0.5)
        assert (plume.centroid_row, plume.centroid_col) == pytest.approx((other.centroid_row, other.centroid_col))
    assert same >= 0.9 * len(expected.packets) > 0


def test_bright_pixels_cut_off_give_the_same_mask(built: Path, tmp_path: Path) -> None:
    """Bands that do not vary among the brightest pixels show no noise there, and no covariance that is positive."""
    model, scene = unet_model(), lines_of("aviris-ng", 96)
    most = np.quantile(scene.radiance, 0.6).astype(np.float32)
    scene = Scene(np.minimum(scene.radiance, most), scene.bands, scene.valid)
    package = package_of(model, 96)
    expected = by_python(model, package, scene, tmp_path / "python").mask
    lines = write_lines(tmp_path / "lines.bin", scene)
    done = run_example(built, flight_image(package, scene.bands), lines, 96, tmp_path / "c")
    assert "0 not judged" in done.stdout, done.stdout
    mask = np.fromfile(tmp_path / "c" / "mask.bin", np.uint8).reshape(96, 96).astype(bool)
    assert expected.sum() > 20
    assert int((mask != expected).sum()) <= 4


class Stream:
    """A stream of the library, with what it has told."""

    PACKET = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), ctypes.c_size_t)
    LINES = ctypes.CFUNCTYPE(
        *(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32),
        *(ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_uint8)),
    )
    TIME = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint16), ctypes.POINTER(ctypes.c_uint32))

    class Options(ctypes.Structure):
        _fields_ = (
            *((name, ctypes.c_uint32) for name in ("columns", "threads", "scene", "most_plume_lines", "raw_block")),
            ("first_apid", ctypes.c_uint16),
            ("threshold", ctypes.c_float),
            ("core_sigmas", ctypes.c_float),
            *((name, ctypes.c_void_p) for name in ("packet", "lines", "time", "user")),
        )

    def __init__(self, library: ctypes.CDLL, image: bytes, **options: float) -> None:
        self.library = library
        self.packets: list[bytes] = []
        self.rows: list[tuple[int, np.ndarray, np.ndarray]] = []
        self._image = np.frombuffer(image + bytes(-len(image) % 8), dtype=np.uint64)
        self._bytes = len(image)
        kept = self._called = (self.PACKET(self._packet), self.LINES(self._lines), self.TIME(self._time))
        addresses = dict(zip(("packet", "lines", "time"), (ctypes.cast(f, ctypes.c_void_p) for f in kept), strict=True))
        timed = options.pop("timed", False)
        if not timed:
            del addresses["time"]
        self.options = self.Options(**({"columns": 48} | addresses | options))
        self.handle = ctypes.c_void_p()

    def _packet(self, _user: int, content: object, size: int) -> None:
        self.packets.append(ctypes.string_at(content, size))  # type: ignore[arg-type]

    def _lines(
        self, _user: int, first: int, lines: int, cols: int, probability: object, _score: object, mask: object
    ) -> None:
        shape = (lines, cols)
        chance = np.ctypeslib.as_array(probability, shape).copy()  # type: ignore[arg-type]
        self.rows.append((first, chance, np.ctypeslib.as_array(mask, shape).copy()))  # type: ignore[arg-type]

    @staticmethod
    def _time(_user: int, days: object, milliseconds: object) -> None:
        days[0], milliseconds[0] = 25000, 1234  # type: ignore[index]

    def needed(self) -> tuple[int, int]:
        size = ctypes.c_size_t()
        given = self._image.ctypes.data, ctypes.c_size_t(self._bytes), ctypes.byref(self.options)
        return self.library.flame_arena_bytes(ctypes.c_void_p(given[0]), *given[1:], ctypes.byref(size)), size.value

    def open(self, less: int = 0, unaligned: int = 0) -> int:
        status, size = self.needed()
        if status != OK:
            return status
        self._arena = ctypes.create_string_buffer(size + unaligned)
        address = ctypes.c_void_p(ctypes.addressof(self._arena) + unaligned)
        return self.library.flame_open(
            *(ctypes.c_void_p(self._image.ctypes.data), ctypes.c_size_t(self._bytes), ctypes.byref(self.options)),
            *(address, ctypes.c_size_t(size - less), ctypes.byref(self.handle)),
        )

    def push(self, line: np.ndarray, bands: int | None = None, columns: int | None = None) -> int:
        given = np.ascontiguousarray(line, dtype=np.float32)
        address = ctypes.c_void_p(given.ctypes.data)
        return self.library.flame_push_line(
            self.handle,
            address,
            len(given) if bands is None else bands,
            given.shape[1] if columns is None else columns,
            None,
        )

    def push_all(self, radiance: np.ndarray) -> set[int]:
        return {self.push(radiance[:, row]) for row in range(radiance.shape[1])}

    def end(self) -> int:
        return self.library.flame_end_scene(self.handle)


def test_lines_of_another_size_leave_no_trace(library: ctypes.CDLL, small_image: bytes) -> None:
    radiance = lines_of("emit", 48).radiance
    clean, troubled = Stream(library, small_image), Stream(library, small_image)
    assert (clean.open(), troubled.open(unaligned=3)) == (OK, OK)
    for row in range(48):
        clean.push(radiance[:, row])
        assert troubled.push(radiance[:, row, :-1]) == OTHER_COLUMNS
        assert troubled.push(radiance[1:, row]) == OTHER_BANDS
        troubled.push(radiance[:, row])
    assert library.flame_push_line(troubled.handle, None, len(radiance), 48, None) == NO_ARGUMENT
    assert (clean.end(), troubled.end()) == (OK, OK)
    assert clean.packets == troubled.packets
    assert clean.packets


def test_nan_lines_are_told_and_no_plume_touches_them(library: ctypes.CDLL, small_image: bytes) -> None:
    radiance = lines_of("emit", 48).radiance.copy()
    radiance[:, 20:23] = np.nan
    stream = Stream(library, small_image)
    stream.open()
    told = [stream.push(radiance[:, row]) for row in range(48)]
    assert [row for row, status in enumerate(told) if status == UNUSABLE_LINE and 19 < row < 23] == [20, 21, 22]
    assert stream.end() == OK
    mask = np.concatenate([rows for _, _, rows in stream.rows])
    assert [first for first, _, _ in stream.rows] == list(np.cumsum([0, *(len(rows) for *_, rows in stream.rows)])[:-1])
    assert mask.shape == (48, 48)
    assert not mask[20:23].any()
    assert mask.any()


def test_a_scene_of_nothing_is_flagged_and_the_next_one_is_judged(library: ctypes.CDLL, small_image: bytes) -> None:
    radiance = lines_of("emit", 48).radiance
    first, second = Stream(library, small_image, timed=True), Stream(library, small_image, timed=True, scene=1)
    first.open()
    second.open()
    assert first.push_all(np.zeros_like(radiance)) <= {UNUSABLE_LINE, UNJUDGED_TILE}
    assert first.end() == UNJUDGED_TILE
    assert first.packets == []
    first.push_all(radiance)
    second.push_all(radiance)
    assert (first.end(), second.end()) == (OK, OK)
    assert first.packets == second.packets
    packet = decode_space_packet(first.packets[0])
    assert packet.time is not None
    assert packet.time.isoformat() == "2026-06-13T00:00:01.234000+00:00"
    assert first.end() == OK, "a scene without lines ends with nothing"


def test_lost_lines_count_as_invalid(library: ctypes.CDLL, small_image: bytes) -> None:
    radiance = lines_of("emit", 48).radiance.copy()
    stream, other = Stream(library, small_image), Stream(library, small_image)
    stream.open()
    other.open()
    for part in (radiance[:, :10], radiance[:, 14:]):
        stream.push_all(part)
        if part.shape[1] == 10:
            assert library.flame_skip_lines(stream.handle, 4) == OK
    radiance[:, 10:14] = np.nan
    other.push_all(radiance)
    assert (stream.end(), other.end()) == (OK, OK)
    assert stream.packets == other.packets


def test_threads_change_no_bit(library: ctypes.CDLL, small_image: bytes) -> None:
    radiance = lines_of("emit", 48).radiance
    streams = [Stream(library, small_image, threads=threads) for threads in (1, 3)]
    for stream in streams:
        assert stream.open() == OK
        stream.push_all(radiance)
        stream.end()
    assert streams[0].packets == streams[1].packets


def test_long_plumes_come_in_pieces(library: ctypes.CDLL, small_image: bytes) -> None:
    radiance = np.concatenate([lines_of("emit", 48).radiance] * 4, axis=1)
    whole, cut = (Stream(library, small_image, threshold=1e-6, most_plume_lines=most) for most in (0, 24))
    for stream in (whole, cut):
        assert stream.open() == OK
        stream.push_all(radiance)
        stream.end()
    assert len(cut.packets) > len(whole.packets)


def _told(packets: dict[int, PlumePacket]) -> list[tuple[int, ...]]:
    found = (packets[number] for number in sorted(packets))
    return [(p.plume, p.flags, p.first_row, p.first_col, p.rows, p.cols, p.area_px) for p in found]


def test_pieces_of_long_plumes_hand_on_their_core_as_in_python(library: ctypes.CDLL, tmp_path: Path) -> None:
    """Ground that is half plume, in pieces of a few lines; some come before the core of their plume, some after."""
    model = unet_model(0.5, functions=5, width=8, hidden=8)
    package, scene = package_of(model, 32, core_sigmas=100.0), lines_of("emit", 64)
    image, sent = flight_image(package, scene.bands), {}
    for core in (0.0, 0.6):
        options = {"columns": 64, "threshold": 0.5, "core_sigmas": core, "most_plume_lines": 8}
        stream = Stream(library, image, **options)
        assert stream.open() == OK
        stream.push_all(scene.radiance)
        stream.end()
        found = _told(decoded(b"".join(stream.packets), tmp_path / f"c {core}"))
        asked = Asked(threshold=0.5, core_sigmas=core)
        expected = by_python(model, package, scene, tmp_path / f"python {core}", asked, most_plume_lines=8)
        assert found == _told(expected.packets)
        sent[core] = found
    assert 3 < len(sent[0.6]) < len(sent[0.0])
    assert any(flags & 1 for _, flags, *_ in sent[0.6])


def test_lines_are_no_plumes_as_in_python(library: ctypes.CDLL, tmp_path: Path) -> None:
    """Valid columns stand alone, so that all that is found in them is long and thin."""
    model = unet_model(0.05, functions=5, width=8, hidden=8)
    package, scene = package_of(model, 32), lines_of("emit", 64)
    valid = scene.valid & (np.arange(64) % 12 < 3)
    holed = Scene(np.where(valid, scene.radiance, np.float32(0)), scene.bands, valid)
    image, sent = flight_image(package, scene.bands), {}
    for core in (0.0, 1e-3):
        stream = Stream(library, image, columns=64, threshold=0.02, core_sigmas=core)
        assert stream.open() == OK
        stream.push_all(holed.radiance)
        stream.end()
        sent[core] = _told(decoded(b"".join(stream.packets), tmp_path / f"c {core}"))
        asked = Asked(threshold=0.02, core_sigmas=core)
        assert sent[core] == _told(by_python(model, package, holed, tmp_path / f"python {core}", asked).packets)
    longest = [max((rows / cols for *_, rows, cols, _ in sent[core]), default=0.0) for core in sent]
    assert longest[0] > 12.0 > longest[1]


def test_the_core_is_the_models_unless_a_core_or_a_threshold_is_given(library: ctypes.CDLL) -> None:
    """As on the ground: a threshold by number has no core unless one is asked for."""
    package, scene = package_of(unet_model(functions=5, width=8, hidden=8), 32, 0.5), lines_of("emit", 48)
    image, sent, masks = flight_image(package, scene.bands), {}, set()
    for threshold, core in ((0.0, 0.0), (0.0, 0.5), (0.5, 0.0), (0.5, 0.5), (0.0, -1.0), (0.0, 1000.0)):
        stream = Stream(library, image, threshold=threshold, core_sigmas=core)
        assert stream.open() == OK
        stream.push_all(scene.radiance)
        stream.end()
        sent[threshold, core] = len(stream.packets)
        masks.add(b"".join(mask.tobytes() for _, _, mask in stream.rows))
    assert sent[0.0, 0.0] == sent[0.0, 0.5] == sent[0.5, 0.5] > 0
    assert sent[0.5, 0.0] == sent[0.0, -1.0] > sent[0.0, 0.0]
    assert sent[0.0, 1000.0] == 0
    (mask,) = masks  # which is given out before the end of a plume is seen
    assert set(mask) == {0, 1}


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"columns": 0}, BAD_OPTIONS),
        ({"columns": 1 << 20}, BAD_OPTIONS),
        ({"threads": 1000}, BAD_OPTIONS),
        ({"first_apid": 0x7FF}, BAD_OPTIONS),
        ({"threshold": 1.5}, BAD_OPTIONS),
        ({"threshold": float("nan")}, BAD_OPTIONS),
        ({"core_sigmas": 1001.0}, BAD_OPTIONS),
        ({"core_sigmas": float("nan")}, BAD_OPTIONS),
        ({"packet": None}, NO_ARGUMENT),
    ],
)
def test_impossible_options_are_refused(
    library: ctypes.CDLL, small_image: bytes, options: dict[str, float], status: int
) -> None:
    assert Stream(library, small_image, **options).open() == status


def test_a_small_arena_and_no_pointers_are_refused(library: ctypes.CDLL, small_image: bytes) -> None:
    assert Stream(library, small_image).open(less=1) == SMALL_ARENA
    assert library.flame_end_scene(None) == NO_ARGUMENT
    assert library.flame_skip_lines(None, 1) == NO_ARGUMENT
    assert library.flame_check_model(None) == NO_ARGUMENT
    assert library.flame_arena_bytes(None, ctypes.c_size_t(0), None, None) == NO_ARGUMENT


def test_a_bit_that_flips_in_the_model_is_seen(library: ctypes.CDLL, small_image: bytes) -> None:
    stream = Stream(library, small_image)
    stream._image = stream._image.copy()
    assert stream.open() == OK
    assert library.flame_check_model(stream.handle) == OK
    stream._image[len(stream._image) // 2] ^= np.uint64(1 << 17)
    assert library.flame_check_model(stream.handle) == DAMAGED


def _changed(image: bytes, section: int, kind: str, number: int, value: float) -> bytes:
    """An image with one number of one section exchanged, whole by its checksum."""
    (at,) = struct.unpack_from("<I", image, 24 + 8 * section)
    content = bytearray(image)
    struct.pack_into(f"<{kind}", content, at + number * struct.calcsize(kind), value)
    return with_checksum(bytes(content))


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "empty": (lambda _image: b"", NO_MODEL),
    "short": (lambda image: image[:20], NO_MODEL),
    "cut": (lambda image: image[:-8], DAMAGED),
    "another file": (lambda image: b"\x7fELF" + image[4:], NO_MODEL),
    "the version before cores": (lambda image: image[:8] + b"\x01" + image[9:], OTHER_VERSION),
    "the version before the least standard deviation": (lambda image: image[:8] + b"\x02" + image[9:], OTHER_VERSION),
    "the version whose core knew the network alone": (lambda image: image[:8] + b"\x03" + image[9:], OTHER_VERSION),
    "a later version": (lambda image: image[:8] + b"\x05" + image[9:], OTHER_VERSION),
    "one bit": (lambda image: image[:5000] + bytes([image[5000] ^ 4]) + image[5001:], DAMAGED),
    "a tile that is no multiple": (lambda image: _changed(image, 0, "i", 0, 33), IMPOSSIBLE),
    "a huge tile": (lambda image: _changed(image, 0, "i", 0, 1 << 30), IMPOSSIBLE),
    "no band": (lambda image: _changed(image, 0, "i", 2, 0), IMPOSSIBLE),
    "a band more": (lambda image: _changed(image, 0, "i", 2, 50), IMPOSSIBLE),
    "an overlap beyond all numbers": (lambda image: _changed(image, 0, "i", 1, 1 << 30), IMPOSSIBLE),
    "a width beyond all numbers": (lambda image: _changed(image, 0, "i", 6, (1 << 31) - 1), IMPOSSIBLE),
    "a core below zero": (lambda image: _changed(image, 1, "d", 3, -1.0), IMPOSSIBLE),
    "a core beyond all plumes": (lambda image: _changed(image, 1, "d", 3, 1001.0), IMPOSSIBLE),
    "a negative width": (lambda image: _changed(image, 0, "i", 6, -4), IMPOSSIBLE),
    "a weight that is no number": (lambda image: _changed(image, 9, "f", 3, float("nan")), IMPOSSIBLE),
    "a far section": (
        lambda image: with_checksum(image[:32] + struct.pack("<I", 0xFFFFFFF0) + image[36:]),
        IMPOSSIBLE,
    ),
    "countless sections": (
        lambda image: with_checksum(image[:20] + struct.pack("<I", 0xFFFFFFFF) + image[24:]),
        IMPOSSIBLE,
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused(library: ctypes.CDLL, small_image: bytes, damage: str) -> None:
    change, status = DAMAGES[damage]
    stream = Stream(library, change(small_image))
    found = stream.open()
    assert found == status, library.flame_words(found)
    assert not stream.handle


def test_a_model_at_an_odd_place_is_refused(library: ctypes.CDLL, small_image: bytes) -> None:
    stream = Stream(library, small_image)
    stream._image = np.frombuffer(b"\0" + small_image, dtype=np.uint8)[1:]
    assert stream.open() == MISPLACED


def test_every_status_has_words_of_its_own(library: ctypes.CDLL) -> None:
    header = (ROOT / "c" / "include" / "flame.h").read_text()
    names = re.findall(r"^\s+FLAME_\w+", header.partition("} flame_status")[0], re.MULTILINE)
    words = {library.flame_words(number) for number in range(len(names))}
    assert len(words) == len(names) == OTHER_COLUMNS + 1
    assert library.flame_words(99) == b"no known status"


def test_the_example_tells_how_it_is_called_and_what_it_cannot_open(
    built: Path, tmp_path: Path, small_image: bytes
) -> None:
    done = subprocess.run([built / "example"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr == "usage: example MODEL LINES PACKETS COLUMNS [MASK]\n"
    missing = tmp_path / "nosuch.bin"
    done = run_example(built, small_image, missing, 48, tmp_path / "run")
    assert done.returncode != 0
    assert done.stderr == f"{missing}: cannot be read: No such file or directory\n"
    assert not (tmp_path / "run" / "packets.bin").exists()


def test_half_a_megabyte_of_stack_is_enough(built: Path, tmp_path: Path, small_image: bytes) -> None:
    lines = write_lines(tmp_path / "lines.bin", lines_of("emit", 48))
    limited = ("sh", "-c", 'ulimit -s 512 && exec "$@"', "sh")
    done = run_example(built, small_image, lines, 48, tmp_path / "run", limited)
    assert done.returncode == 0, done.stderr


def test_the_library_needs_the_mathematics_and_threads_alone(built: Path) -> None:
    """No allocation, no file, no exit: what is not there cannot be called."""
    listed = subprocess.run(["nm", "-A", built / "libflame.a"], capture_output=True, text=True, check=True).stdout
    entries = [line.split()[-2:] for line in listed.splitlines() if line.strip()]
    defined = {name for kind, name in entries if kind not in "Uw"}
    needed = {name for kind, name in entries if kind == "U"} - defined
    system = r"mem(cpy|set|move|cmp)|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__cpu_\w+|pthread_\w+"
    allowed = system + r"|(exp|log|pow|sqrt|rint|floor|ceil|fmax|fmin)f?"
    assert {name for name in needed if not re.fullmatch(allowed, name)} == set()


def _parameters(text: str, pattern: str) -> dict[str, str]:
    """Parameter lists of functions by name, spelled in one way."""
    return {name: " ".join(given.split()) for name, given in re.findall(pattern, text)}


def test_the_kernels_are_called_as_they_are_written() -> None:
    kernels = ROOT / "src" / "flame" / "kernels"
    written = _parameters(
        "".join(path.read_text() for path in kernels.glob("*.c")), r"\b(?:void|int32_t) EXPORT\((\w+)\)\(([^)]*)\) {"
    )
    declared = _parameters(
        (ROOT / "c" / "src" / "kernels.h").read_text(), r"\b(?:void|int32_t) (\w+)_baseline\(([^)]*)\);"
    )
    assert "filter_planes" in declared
    assert len(declared) > 10
    assert declared == {name: given for name, given in written.items() if name in declared}
    network, own = (path.read_text() for path in (kernels / "network.c", ROOT / "c" / "src" / "kernels.h"))
    fields = [re.search(r"typedef struct {([^}]*)} image;", text)[1] for text in (network, own)]  # type: ignore[index]
    assert len({re.sub(r"/\*.*?\*/|\s", "", each) for each in fields}) == 1


def _has_sanitizers() -> bool:
    probe = subprocess.run(
        ["cc", "-fsanitize=address,undefined", "-x", "c", "-", "-o", "/dev/null"],
        input="int main(void) { return 0; }",
        capture_output=True,
        text=True,
        check=False,
    )
    return probe.returncode == 0


@pytest.mark.skipif(not has_compiler() or not _has_sanitizers(), reason="the compiler has no AddressSanitizer")
def test_nothing_leaves_its_memory(tmp_path: Path, small_image: bytes) -> None:
    checks = "-fsanitize=address,undefined -fno-sanitize-recover=all -g"
    built = build(tmp_path / "sane", "OPTIMISED=-O1", f"EXTRA={checks} -Wno-error")
    scene = lines_of("emit", 47, 0.05)
    lines = write_lines(tmp_path / "lines.bin", scene)
    lines.write_bytes(lines.read_bytes()[:-100])  # the last line is short
    done = run_example(built, small_image, lines, 47, tmp_path / "run")
    assert "runtime error" not in done.stderr, done.stderr[-3000:]
    assert "AddressSanitizer" not in done.stderr, done.stderr[-3000:]
    assert "not as many columns" in done.stderr
    assert re.search(r"46 lines, \d+ unusable; 4 tiles, 0 not judged; [1-9]\d* plumes", done.stdout)
    for damage, (change, status) in DAMAGES.items():
        done = run_example(built, change(small_image), lines, 47, tmp_path / "run")
        assert done.returncode == status, (damage, done.stderr[-3000:])
