"""What a command line means: read by the shell's rules, fitted into what is known of each tool."""

from __future__ import annotations
