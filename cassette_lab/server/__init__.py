"""Recorded models behind a local HTTP address, for agents in other processes. Needs the extra ``serve``."""
