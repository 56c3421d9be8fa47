"""Sign a manifest and verify its signature with ssh-keygen of OpenSSH, whose keys engineers already have.

A signature (SSHSIG) covers the bytes of the manifest, which has the sha256 of model, external data and engine. No key
is read or made here. Ed25519 keys give the same signature each time.
"""

import binascii
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.models.scratch import ScratchFolder

SUFFIX = ".sig"
_TOOL = "ssh-keygen"
# The namespace separates signatures of manifests from other signatures by the key, such as those of commits.
_NAMESPACE = "qdqtool-manifest"
_SIGNER = "qdqtool"
_KEY_TYPE = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[\w.@-]+", re.ASCII)
_GOOD = re.compile(r"with (?P<key>\S+ key \S+)")


def signature_path(manifest: Path) -> Path:
    """Return the path ``ENGINE.manifest.json.sig``."""
    return manifest.with_name(f"{manifest.name}{SUFFIX}")


def sign(data: bytes, key: Path) -> bytes:
    """Return the signature of ``data``, as text.

    Args:
        data: The bytes to sign.
        key: A private key in OpenSSH format, or the public key if ssh-agent has the private key. ssh-keygen asks for a
            passphrase on the terminal.

    Raises:
        UsageError: The key cannot sign.
    """
    if not key.is_file():
        raise UsageError(f"key {key}: no such file")
    done = _run(["-Y", "sign", "-f", str(key), "-n", _NAMESPACE], data)
    if done.returncode != 0 or not done.stdout:
        raise UsageError(f"key {key} cannot sign: {_last_line(done)}")
    return done.stdout


def verify(data: bytes, signature: Path, public_key: Path) -> str:
    """Return type and fingerprint of the key that signed ``data``, or an empty text if no given key did.

    Args:
        data: The signed bytes.
        signature: The file with the signature.
        public_key: A file with public keys in OpenSSH format, one in each line.

    Raises:
        UsageError: The file has no public key.
    """
    with ScratchFolder("qdqtool-signers-") as scratch:
        signers = scratch.path / "signers"
        lines = [f'{_SIGNER} namespaces="{_NAMESPACE}" {kind} {code}\n' for kind, code in _public_keys(public_key)]
        signers.write_text("".join(lines), encoding="ascii")
        words = ["-Y", "verify", "-f", str(signers), "-I", _SIGNER, "-n", _NAMESPACE, "-s", str(signature)]
        done = _run(words, data)
    if done.returncode != 0:
        if b"invalid key" in done.stderr:
            raise UsageError(f"{public_key} contains a public key that ssh-keygen does not accept")
        return ""
    found = _GOOD.search(done.stdout.decode(errors="replace"))
    return found["key"] if found is not None else "a key of the file"


def _public_keys(file: Path) -> list[tuple[str, str]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"public key {file} cannot be read: {reason}") from None
    if "PRIVATE KEY" in text:
        raise UsageError(
            f"{file} is a private key; a signature is verified with the public one", hint=f"try {file}.pub"
        )
    words = [line.split()[:2] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = [
        (pair[0], pair[1]) for pair in words if len(pair) == 2 and _KEY_TYPE.fullmatch(pair[0]) and _is_base64(pair[1])
    ]
    if not found or len(found) < len(words):
        raise UsageError(f"{file} is not a file of OpenSSH public keys, such as KEY.pub of ssh-keygen")
    return found


def _is_base64(word: str) -> bool:
    try:
        return bool(binascii.a2b_base64(word, strict_mode=True))
    except (binascii.Error, ValueError):
        return False


def _run(words: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    tool = shutil.which(_TOOL)
    if tool is None:
        raise CapabilityError(
            f"{_TOOL} is not installed; it signs manifests and verifies their signatures",
            hint="install OpenSSH 8.1 or later",
        )
    return subprocess.run([tool, *words], input=data, capture_output=True, check=False)  # noqa: S603  found by its name


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"{_TOOL} ended with exit code {done.returncode}"
