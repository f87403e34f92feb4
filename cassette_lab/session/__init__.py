"""Session logs of DeepSeek Harness, formats 0 to 4: the append-only event log of one agent."""
