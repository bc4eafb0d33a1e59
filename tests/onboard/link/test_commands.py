"""A command is carried out only if it is whole, signed, for this spacecraft, new and allowed."""

import hashlib
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from flame.onboard.link.commands import (
    Command,
    CommandError,
    CommandKind,
    UploadPlan,
    Verifier,
    decode_command,
    encode_command,
    load_private_key,
    load_public_key,
    make_keys,
    peek_command,
    threshold_of,
)
from flame.onboard.link.health import Mode
from flame.onboard.link.model_store import ModelStore, Upload, bundle_model, decode_piece, encode_piece
from tiny_models import filter_model, whitening_model

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
COMMANDS = st.builds(
    Command, st.sampled_from(CommandKind), st.integers(0, 2**64 - 1), st.binary(max_size=90), st.integers(0, 2**32 - 1)
)


def signed(kind, counter, body=b"", spacecraft=0, key=KEY):
    return encode_command(Command(kind, counter, body, spacecraft), key)


@settings(deadline=None)
@given(COMMANDS)
def test_a_command_comes_back_and_says_who_it_is(command):
    data = encode_command(command, KEY)
    assert decode_command(data, KEY.public_key()) == command
    assert peek_command(data) == (command.counter, command.kind)


@settings(deadline=None)
@given(COMMANDS, st.data())
def test_one_flipped_bit_anywhere_is_refused(command, data):
    content = bytearray(encode_command(command, KEY))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CommandError, match="signature"):
        decode_command(bytes(content), KEY.public_key())


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused(noise):
    with pytest.raises(CommandError):
        decode_command(noise, KEY.public_key())
    peek_command(noise)


def test_replayed_old_foreign_and_forbidden_commands_are_refused(tmp_path):
    verifier = Verifier(KEY.public_key(), tmp_path, 7, frozenset({CommandKind.THRESHOLD, CommandKind.MODE}))
    first = signed(CommandKind.THRESHOLD, 5, b"", 7)
    assert verifier.accept(first).counter == 5
    for data, words in (
        (first, "counter 5 is not above 5"),
        (signed(CommandKind.MODE, 4, b"", 7), "counter 4 is not above 5"),
        (signed(CommandKind.MODE, 6, b"", 8), "for spacecraft 8"),
        (signed(CommandKind.ROLL_BACK, 6, b"", 7), "ROLL_BACK is not allowed"),
        (signed(CommandKind.MODE, 6, b"", 7, Ed25519PrivateKey.generate()), "signature"),
    ):
        with pytest.raises(CommandError, match=words):
            verifier.accept(data)
    assert verifier.last == 5
    # What was refused used up no counter, and a restart forgets nothing.
    again = Verifier(KEY.public_key(), tmp_path, 7)
    with pytest.raises(CommandError, match="not above 5"):
        again.accept(first)
    assert again.accept(signed(CommandKind.MODE, 6, b"", 7)).kind is CommandKind.MODE
    (tmp_path / "command-counter").write_text("?")
    with pytest.raises(CommandError, match="cannot be read as a counter"):
        Verifier(KEY.public_key(), tmp_path, 7)


@settings(deadline=None)
@given(st.floats(0.001, 0.999))
def test_modes_shift_the_threshold_by_equal_odds(normal):
    low, high = threshold_of(Mode.SENSITIVE, normal), threshold_of(Mode.SURE, normal)

    def odds(probability):
        return probability / (1 - probability)

    assert odds(normal) / odds(low) == pytest.approx(odds(high) / odds(normal))
    assert low < normal == threshold_of(Mode.NORMAL, normal) < high


def test_keys_are_written_once_and_told_apart(tmp_path):
    private, public = make_keys(tmp_path)
    assert private.stat().st_mode & 0o077 == 0
    load_public_key(public).verify(load_private_key(private).sign(b"x"), b"x")
    with pytest.raises(CommandError, match="keys already"):
        make_keys(tmp_path)
    with pytest.raises(CommandError, match="flame ground keys"):
        load_private_key(public)
    with pytest.raises(CommandError, match="flame ground keys"):
        load_public_key(tmp_path / "none.pem")


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=300), st.integers(1, 60), st.randoms(use_true_random=False))
def test_an_upload_is_whole_from_pieces_in_any_order_some_twice(content, size, random):
    upload = Upload(UploadPlan(len(content), 3, hashlib.sha256(content).digest()))
    pieces = [encode_piece(3, at, content[at : at + size]) for at in range(0, len(content), size)]
    pieces += random.sample(pieces, len(pieces) // 2)
    random.shuffle(pieces)
    for piece in pieces[:-1]:
        upload.take(*decode_piece(piece))
    missing = sum(high - low for low, high in upload.missing)
    if missing:
        with pytest.raises(CommandError, match="missing"):
            upload.finished()
    upload.take(*decode_piece(pieces[-1]))
    assert upload.missing == []
    assert upload.finished() == content


def test_an_upload_of_other_bytes_is_refused():
    upload = Upload(UploadPlan.of(UploadPlan(4, 1, hashlib.sha256(b"good").digest()).body()))
    with pytest.raises(CommandError, match="of upload 2"):
        upload.take(2, 0, b"good")
    with pytest.raises(CommandError, match="beyond"):
        upload.take(1, 2, b"good")
    upload.take(1, 0, b"evil")
    with pytest.raises(CommandError, match="SHA-256"):
        upload.finished()


def _factory(tmp_path):
    package = filter_model()
    (tmp_path / "f.onnx").write_bytes(package.onnx)
    (tmp_path / "f.json").write_text(package.manifest.to_json())
    return package, tmp_path / "f.onnx"


def test_models_are_tried_approved_and_rolled_back(tmp_path):
    factory, path = _factory(tmp_path)
    one, two = filter_model(centred=True), whitening_model()
    store = ModelStore(tmp_path / "state", path)
    assert store.load().manifest == factory.manifest
    with pytest.raises(CommandError, match="none before it"):
        store.roll_back()
    assert store.add(bundle_model(one), factory.manifest).manifest == one.manifest
    # A restart before the self-test has passed goes back to what was good.
    assert ModelStore(tmp_path / "state", path).load().manifest == factory.manifest
    store.approve()
    assert ModelStore(tmp_path / "state", path).load().manifest == one.manifest
    store.add(bundle_model(two), one.manifest)
    store.reject()
    assert store.load().manifest == one.manifest
    store.add(bundle_model(two), one.manifest)
    store.approve()
    assert store.load().manifest == two.manifest
    assert store.roll_back().manifest == one.manifest
    assert store.roll_back().manifest == factory.manifest


def test_a_damaged_model_on_board_is_left_aside(tmp_path):
    factory, path = _factory(tmp_path)
    store = ModelStore(tmp_path, path)
    store.add(bundle_model(filter_model(centred=True)), factory.manifest)
    store.approve()
    (file,) = (tmp_path / "models").glob("*/model.onnx")
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    assert ModelStore(tmp_path, path).load().manifest == factory.manifest
    (tmp_path / "models/store.json").write_text("{")
    assert ModelStore(tmp_path, path).load().manifest == factory.manifest


def test_bundles_that_are_no_model_of_this_instrument_are_refused(tmp_path):
    factory, path = _factory(tmp_path)
    store = ModelStore(tmp_path, path)
    with pytest.raises(CommandError, match="no model bundle"):
        store.add(b"PK nothing", factory.manifest)
    good = bundle_model(factory)
    assert good == bundle_model(factory)
    other = replace(factory.manifest, band_centres_nm=tuple(c + 1 for c in factory.manifest.band_centres_nm))
    with pytest.raises(CommandError, match="not those of this instrument"):
        store.add(good, other)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_bundle_never_raises_anything_else(tmp_path_factory, data):
    content = bytearray(bundle_model(filter_model()))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    store = ModelStore(tmp_path_factory.mktemp("store"))
    try:
        store.add(bytes(content), filter_model().manifest)
    except CommandError as refusal:
        assert "\n" not in str(refusal)  # noqa: PT017  some bits of a compressed file mean nothing
