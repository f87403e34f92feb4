"""JavaScript's regular expressions, as cassettes and replay scripts hold them: ``Pattern``, and what it refuses.

``translation`` rewrites a pattern for an engine that reads code points; the engine is loaded when a pattern is made.
"""

from cassette_lab.javascript.pattern import Match, Pattern, PatternSyntaxError, replaced

__all__ = ["Match", "Pattern", "PatternSyntaxError", "replaced"]
