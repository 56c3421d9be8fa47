"""Signatures by ssh-keygen: what verifies, what does not, and keys that are none."""

import shutil
import subprocess
from pathlib import Path

import pytest

from qdqtool.engines.build.signature import sign, signature_path, verify
from qdqtool.errors import CapabilityError, UsageError

DATA = b'{"engine": "e"}\n'
needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")


def make_key(folder: Path, name: str, kind: str = "ed25519", passphrase: str = "") -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "a comment", "-f", str(folder / name)], check=True
    )
    return folder / name


@pytest.fixture
def key(tmp_path):
    return make_key(tmp_path, "key")


def signed(folder: Path, key: Path, data: bytes = DATA) -> Path:
    (folder / "m.json.sig").write_bytes(sign(data, key))
    return folder / "m.json.sig"


@needs_ssh
@pytest.mark.parametrize(("kind", "name"), [("ed25519", "ED25519"), ("ecdsa", "ECDSA"), ("rsa", "RSA")])
def test_what_was_signed_verifies_with_the_fingerprint_that_ssh_shows(tmp_path, kind, name):
    key = make_key(tmp_path, "k", kind)
    found = verify(DATA, signed(tmp_path, key), tmp_path / "k.pub")
    shown = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], capture_output=True, text=True, check=True).stdout
    assert found == f"{name} key {shown.split()[1]}"


@needs_ssh
def test_ssh_itself_verifies_it(tmp_path, key):
    signature = signed(tmp_path, key)
    (tmp_path / "signers").write_text(f"me {(tmp_path / 'key.pub').read_text()}")
    words = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "me", "-n", "qdqtool-manifest"]
    subprocess.run([*words, "-s", str(signature)], input=DATA, check=True, capture_output=True)


@needs_ssh
def test_the_same_key_signs_alike(key):
    assert sign(DATA, key) == sign(DATA, key)


@needs_ssh
def test_one_key_of_several_is_enough_and_comments_are_skipped(tmp_path, key):
    other = make_key(tmp_path, "other").with_suffix(".pub").read_text()
    (tmp_path / "keys").write_text(f"# ours\n\n{other}{(tmp_path / 'key.pub').read_text()}")
    assert verify(DATA, signed(tmp_path, key), tmp_path / "keys")


@needs_ssh
@pytest.mark.parametrize("change", ["data", "key", "signature", "junk", "namespace"])
def test_what_does_not_verify(tmp_path, key, change):
    signature = signed(tmp_path, key)
    public, data = tmp_path / "key.pub", DATA
    if change == "data":
        data = DATA.replace(b"e", b"f", 1)
    if change == "key":
        public = make_key(tmp_path, "other").with_suffix(".pub")
    if change == "signature":
        signature = signed(tmp_path, make_key(tmp_path, "other"))
    if change == "junk":
        signature.write_text("no signature")
    if change == "namespace":
        words = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", "git"]
        signature.write_bytes(subprocess.run(words, input=DATA, capture_output=True, check=True).stdout)
    assert verify(data, signature, public) == ""


@needs_ssh
def test_a_private_key_does_not_verify(tmp_path, key):
    with pytest.raises(UsageError, match="is a private key") as caught:
        verify(DATA, signed(tmp_path, key), key)
    assert caught.value.hint == f"try {key}.pub"


@needs_ssh
@pytest.mark.parametrize(
    "text",
    ["", "ssh-ed25519\n", "ssh-ed25519 not*base64\n", "hello world\n", 'me namespaces="x" ssh-ed25519 AAAA\n', "\xff"],
)
def test_what_is_no_public_key(tmp_path, key, text):
    (tmp_path / "k.pub").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"not a file of OpenSSH public keys|it is not text"):
        verify(DATA, signed(tmp_path, key), tmp_path / "k.pub")


@needs_ssh
def test_a_public_key_that_ssh_does_not_take(tmp_path, key):
    (tmp_path / "k.pub").write_text("ssh-ed25519 AAAA\n")
    with pytest.raises(UsageError, match="that ssh-keygen does not accept"):
        verify(DATA, signed(tmp_path, key), tmp_path / "k.pub")


@needs_ssh
def test_keys_that_cannot_sign(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        sign(DATA, tmp_path / "absent")
    (tmp_path / "photo").write_bytes(b"\xff\xd8")
    with pytest.raises(UsageError, match="photo cannot sign"):
        sign(DATA, tmp_path / "photo")


def test_without_openssh(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    (tmp_path / "k").touch()
    with pytest.raises(CapabilityError, match="ssh-keygen is not installed"):
        sign(DATA, tmp_path / "k")


def test_the_name_of_a_signature(tmp_path):
    assert signature_path(tmp_path / "e.manifest.json") == tmp_path / "e.manifest.json.sig"
