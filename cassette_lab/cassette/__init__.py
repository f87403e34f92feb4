"""Cassettes: hash-chained JSONL of one-shot subagent calls, recorded at the provider boundary, replayed by strict identity."""
