"""How many tokens a text has, estimated without the tokenizer of a model."""

from __future__ import annotations

import re

__all__ = ["estimate_tokens"]

# Words of up to nine letters, single digits, pairs of signs, line ends: about what byte-pair
# tokenizers make of prompts with JSON, times and numbers (Qwen2.5: within 12 % on our prompts).
_TOKEN = re.compile(r"[A-Za-z]{1,9}|[0-9]|[^\w\s]{1,2}|_|\n+|[^\x00-\x7f]")


def estimate_tokens(text: str) -> int:
    """About how many tokens the text has."""
    return sum(1 for _ in _TOKEN.finditer(text))
