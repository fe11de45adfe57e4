"""What a command line means: what the shell makes of it, fitted into what is known of each tool."""

from __future__ import annotations
