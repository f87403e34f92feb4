"""Models behind an HTTP address: OpenAI-compatible endpoints, and the Messages endpoint that the harness speaks."""
